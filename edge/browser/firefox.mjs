// Firefox, driven by WebDriver BiDi, with the few functions of Playwright that the tests
// call. Playwright itself drives only a Firefox that it built.
import puppeteer from "puppeteer-core";

// launchFirefox starts one browser for each colour scheme that is asked for, because BiDi
// cannot set the scheme of a page.
export async function launchFirefox(executablePath, schemes = ["light", "dark"]) {
  const start = (scheme) => puppeteer.launch({
    browser: "firefox", executablePath, timeout: 60_000, protocolTimeout: 120_000,
    extraPrefsFirefox: { "layout.css.prefers-color-scheme.content-override": scheme === "dark" ? 0 : 1 },
  });
  const browsers = {};
  for (const scheme of schemes) browsers[scheme] = await start(scheme);
  return {
    async newContext({ viewport, colorScheme }) {
      const context = await browsers[colorScheme].createBrowserContext();
      return {
        async newPage() {
          const page = await context.newPage();
          await page.setViewport(viewport);
          page.waitForLoadState = () => page.waitForNetworkIdle({ idleTime: 500 });
          return page;
        },
        cookies: () => context.cookies(),
        close: () => context.close(),
      };
    },
    close: () => Promise.all(Object.values(browsers).map((b) => b.close())),
  };
}
