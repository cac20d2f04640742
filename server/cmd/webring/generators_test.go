package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// generated is an empty folder for a client of the OpenAPI document, with the document and
// the packages that are in another.
func generated(t *testing.T, packages string) (dir, document string) {
	t.Helper()
	text, err := specificationText()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	document = filepath.Join(dir, "openapi.json")
	if err := os.WriteFile(document, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if packages != "" {
		if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	return dir, document
}

// run runs a program in a folder, which must succeed.
func runIn(t *testing.T, dir string, words ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%.4000s", words, err, out)
	}
}

// compile holds TypeScript in a folder to its types.
func compile(t *testing.T, dir string) {
	t.Helper()
	settings := `{"compilerOptions":{"target":"es2022","module":"esnext","moduleResolution":"bundler","strict":true,"noEmit":true,"skipLibCheck":true,"types":[]},"include":["*.ts","*/**/*.ts"],"exclude":["node_modules"]}`
	if err := os.WriteFile(filepath.Join(dir, "tsconfig.json"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	runIn(t, dir, "node", "node_modules/typescript/bin/tsc", "-p", ".")
}

// The two generators that most clients come from make one of the document, with what they do
// by default, and it compiles.
func TestGeneratorsMakeClientsThatCompile(t *testing.T) {
	t.Parallel()
	t.Run("oapi-codegen", func(t *testing.T) {
		t.Parallel()
		if raceDetector {
			t.Skip("the race detector sees nothing in it")
		}
		dir, document := generated(t, "")
		for _, name := range []string{"go.mod", "go.sum", "client.go"} {
			text, err := os.ReadFile(filepath.Join("../../../edge/describe/generators/oapi", name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		runIn(t, dir, "go", "tool", "oapi-codegen", "-package", "client", "-o", "api.go", document)
		runIn(t, dir, "go", "build", "./...")
	})
	t.Run("hey-api", func(t *testing.T) {
		t.Parallel()
		dir, document := generated(t, agents(t))
		runIn(t, dir, "node", "node_modules/@hey-api/openapi-ts/bin/run.js", "-i", document, "-o", "client")
		compile(t, dir)
	})
}

// Others do, too: orval, openapi-typescript and openapi-zod-client. It is for make
// check-foreign, which has GENERATORS name their folder.
func TestMoreGeneratorsMakeClientsThatCompile(t *testing.T) {
	packages := os.Getenv("GENERATORS")
	if packages == "" {
		t.Skip("make check-foreign runs it")
	}
	dir, document := generated(t, npm(t, packages))
	runIn(t, dir, "node", "node_modules/orval/dist/bin/orval.mjs", "--input", document, "--output", "orval/client.ts", "--client", "fetch")
	runIn(t, dir, "node", "node_modules/openapi-typescript/bin/cli.js", document, "-o", "types.ts")
	runIn(t, dir, "node", "node_modules/openapi-zod-client/bin.js", document, "-o", "zod.ts")
	compile(t, dir)
}
