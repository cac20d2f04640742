package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"webring/edge/durable"
	"webring/edge/front"
	"webring/server"
)

// defineCheck defines --check.
func defineCheck(flags *flag.FlagSet, check *bool) {
	flags.BoolVar(check, checkFlag, false, "check everything that a start needs, print a list, and change nothing; it may run while a process uses the same folder")
}

// checks is the list that --check prints, a line a check. Its texts hold no secret.
type checks struct {
	out          io.Writer
	count, wrong int
}

func (c *checks) line(state, what, text string) {
	c.count++
	fmt.Fprintf(c.out, "%-5s  %-15s  %s\n", state, what, text)
}

func (c *checks) ok(what, format string, args ...any) {
	c.line("ok", what, fmt.Sprintf(format, args...))
}

// note adds a line about something that works, but may not be what the operator wants.
func (c *checks) note(what, format string, args ...any) {
	c.line("note", what, fmt.Sprintf(format, args...))
}

// fail adds a line for each of the joined errors, and reports whether there are any.
func (c *checks) fail(what string, err error) bool {
	if err == nil {
		return false
	}
	for text := range strings.Lines(err.Error()) {
		c.wrong++
		c.line("wrong", what, strings.TrimSpace(text))
	}
	return true
}

// end gives an error if a check is wrong.
func (c *checks) end() error {
	if c.wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks are wrong", c.wrong, c.count)
}

// configuration reads the flags of a command, and reports whether that worked: without
// them nothing else can be checked.
func (c *checks) configuration(flags *flag.FlagSet, args []string) bool {
	if c.fail("configuration", parse(flags, args)) {
		c.note("configuration", "the rest is checked once this is right")
		return false
	}
	path := flags.Lookup(configName).Value.String()
	if path == "" {
		c.ok("configuration", "of flags and environment")
		return true
	}
	c.ok("configuration", "of flags, environment and %s", path)
	info, err := os.Stat(path)
	if err != nil || !durable.Shared(info) {
		return true
	}
	for _, name := range secretURLs {
		f := flags.Lookup(name)
		if f == nil {
			continue
		}
		if _, secret := blank(name, f.Value.String()); secret {
			c.note("configuration", "%s is open to others than its owner, and --%s may hold a key: if it is set there, run chmod 600 '%[1]s', or give it to root and the group of the service, with mode 640", path, name)
		}
	}
	return true
}

// folder checks that a data folder can be written or made, and the room on its disk.
func (c *checks) folder(dir string, floor uint64) {
	const writable = 2 | 1 // and searchable, as access(2) has it
	at := dir
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	switch {
	case c.fail("data", err):
		return
	case !info.IsDir():
		c.fail("data", fmt.Errorf("--data %s: %s is no folder", dir, at))
		return
	case syscall.Access(at, writable) != nil:
		c.fail("data", fmt.Errorf("--data %s: this user cannot write in %s: give it the folder, or run as its owner", dir, at))
	case at != dir:
		c.ok("data", "%s is made at the start", dir)
	default:
		c.ok("data", "%s can be written in", dir)
	}
	disk := &server.Volume{Dir: at}
	if !c.fail("disk", disk.AtLeast(floor)()) {
		free, _ := disk.Space()
		c.ok("disk", "%d MiB free, of %d that are needed", free>>20, floor>>20)
	}
}

// listening checks that an address can be listened on. If a process runs on the same data
// folder, that process may hold the address. Instead of one that was not given, the start takes
// another.
func (c *checks) listening(name, address string, running, given bool) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		l.Close()
		c.ok("listen", "%s %s is free", name, address)
	case running && errors.Is(err, syscall.EADDRINUSE):
		c.note("listen", "%s %s is taken, as it must be if the process on this data folder has it", name, address)
	case !given && errors.Is(err, syscall.EADDRINUSE):
		c.note("listen", "%s %s is taken: the start takes the next free port", name, address)
	default:
		c.fail("listen", fmt.Errorf("%s: %w: choose another address, or end what has this one, unless that is the socket unit of this process", name, err))
	}
}

// accessLog checks that lines can be appended to the file at path, or that it can be made.
func (c *checks) accessLog(path string) {
	const writable, enterable = 2, 1 // as access(2) has it
	if path == "" || path == "-" {
		return
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		c.fail("access log", fmt.Errorf("--access-log: %s is a folder: name a file in it", path))
		return
	}
	err := syscall.Access(path, writable)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Dir(path)
		err = syscall.Access(path, writable|enterable)
	}
	if err != nil {
		c.fail("access log", fmt.Errorf("--access-log: this user cannot write in %s: %w", path, err))
		return
	}
	c.ok("access log", "%s can be written", path)
}

// soon is how long before its end a certificate is worth a note.
const soon = 14 * 24 * time.Hour

// front checks listeners, proxies and TLS. host is the host name that clients use, "" if
// that is not known.
func (c *checks) front(f *shellFlags, data, host string, running bool) {
	if _, err := f.proxies(); !c.fail("proxies", err) {
		if n := len(f.trustedProxies); n > 0 {
			c.ok("proxies", "%d trusted, which name their clients in %s", n, f.clientIPHeader)
		} else {
			c.ok("proxies", "none is trusted")
		}
	}
	c.listening("--listen", f.listen, running, true)
	c.accessLog(f.logs.access)
	if a := f.adminListen; a.address != "" {
		c.listening("--admin-listen", a.address, running, a.given)
	}
	if f.tls.httpListen != "" {
		c.listening("acme-http-listen", f.tls.httpListen, running, true)
	}
	switch {
	case f.tls.cert != "" && f.tls.key != "":
		c.certificate(&f.tls, host)
	case len(f.tls.hosts) > 0:
		c.authority(&f.tls, data)
	default:
		c.ok("tls", "none here")
	}
}

// certificate checks a pair of files.
func (c *checks) certificate(f *tlsFlags, host string) {
	pair, err := front.ReadCertificate(f.cert, f.key)
	if c.fail("tls", err) {
		return
	}
	leaf, now := pair.Leaf(), time.Now()
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case now.After(leaf.NotAfter):
		c.fail("tls", fmt.Errorf("--tls-cert: %s expired on %s: have it renewed", f.cert, until))
		return
	case now.Before(leaf.NotBefore):
		c.fail("tls", fmt.Errorf("--tls-cert: %s counts from %s on only: check this machine's clock", f.cert, leaf.NotBefore.UTC().Format(time.RFC3339)))
		return
	case now.Add(soon).After(leaf.NotAfter):
		c.note("tls", "the certificate expires on %s already", until)
	default:
		c.ok("tls", "the certificate holds until %s", until)
	}
	if host != "" && leaf.VerifyHostname(host) != nil {
		c.note("tls", "the certificate is not for %s: clients that come straight here refuse it", host)
	}
}

// patience is how long a check waits for another machine.
const patience = 10 * time.Second

// authority checks that the authority of ACME answers.
func (c *checks) authority(f *tlsFlags, data string) {
	ctx, cancel := waiting()
	defer cancel()
	cfg := f.acme(data, nil)
	if err := cfg.Reach(ctx); err != nil {
		c.fail("acme", fmt.Errorf("acme-directory %s: %w: correct it, or have this machine reach it", f.directory, err))
		return
	}
	c.ok("acme", "%s answers; it has to reach port 443 of %s", f.directory, f.hosts.String())
}
