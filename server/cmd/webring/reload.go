package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"webring/edge"
	"webring/edge/follow"
	"webring/edge/forward"
	"webring/edge/front"
	"webring/server"
	"webring/server/logging"
)

// errRestart is the error of a part that cannot change to its new flags without a restart.
var errRestart = errors.New("it takes a restart")

// change is the second step of a part's reload. apply runs once all parts are prepared, and
// said goes into the log. The zero value stands for a part that has not changed.
type change struct {
	said  string
	apply func() error
}

// part is something that a process can reload. flags are the names of its flags. prepare
// reads its files by the settings in next, and changes nothing yet.
type part struct {
	name    string
	flags   []string
	prepare func(next settings) (change, error)
}

// settings are those of serve or of edge.
type settings interface {
	flags() *flag.FlagSet
	validate() error
	// front gives the settings of the shell, and the file of the edge secrets.
	front() (*shellFlags, string)
}

// reloader reads the configuration of a process again on a hangup.
type reloader struct {
	hangups <-chan os.Signal
	read    func() (settings, *flag.FlagSet, error)
	inForce map[string]string // the values by flag
	parts   []part
	log     *slog.Logger
}

// load reads the settings of a process, and gives what reads them again. fresh makes settings with
// their defaults. From now on hangups do not end the process: a terminal that closes sends one, or a
// supervisor.
func load(args []string, fresh func() settings) (settings, *reloader, error) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	r := &reloader{hangups: hangups, read: func() (settings, *flag.FlagSet, error) {
		o := fresh()
		fs := o.flags()
		err := parse(fs, args)
		if err == nil {
			err = o.validate()
		}
		return o, fs, err
	}}
	o, fs, err := r.read()
	r.inForce = values(fs)
	return o, r, err
}

// values gives the values of flags by their names.
func values(fs *flag.FlagSet) map[string]string {
	all := map[string]string{}
	fs.VisitAll(func(f *flag.Flag) { all[f.Name] = f.Value.String() })
	return all
}

// add has a part reloaded on each hangup. It is for the time before run.
func (r *reloader) add(name string, flags []string, prepare func(next settings) (change, error)) {
	r.parts = append(r.parts, part{name, flags, prepare})
}

// run reloads on each hangup, one that came before included, until ctx is done.
func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-r.hangups:
			notifyReloading(r.log)
			r.reload()
			notifyReady(r.log)
		case <-ctx.Done():
			return
		}
	}
}

// reload prepares all parts, and applies their changes if none fails.
func (r *reloader) reload() {
	next, fs, err := r.read()
	if err != nil {
		r.refuse(err)
		return
	}
	now := values(fs)
	var restart []string // flags that differ and take one
	differs := func(name string) bool { return now[name] != r.inForce[name] }
	for name := range now {
		if differs(name) && !slices.ContainsFunc(r.parts, func(p part) bool { return slices.Contains(p.flags, name) }) {
			restart = append(restart, name)
		}
	}
	var changes []change
	var reloaded []part
	for _, p := range r.parts {
		c, err := p.prepare(next)
		switch {
		case errors.Is(err, errRestart):
			for _, name := range p.flags {
				if differs(name) {
					restart = append(restart, name)
				}
			}
			continue
		case err != nil:
			r.refuse(err)
			return
		}
		changes, reloaded = append(changes, c), append(reloaded, p)
	}
	said := false
	for i, c := range changes {
		if c.apply != nil {
			if err := c.apply(); err != nil {
				r.log.Error("hangup: "+reloaded[i].name+" could not be reloaded, and stays as it was", "err", err)
				continue
			}
			said = true
			r.log.Info("hangup: reloaded "+reloaded[i].name, "now", c.said)
		}
		for _, name := range reloaded[i].flags {
			r.inForce[name] = now[name]
		}
	}
	if len(restart) > 0 {
		slices.Sort(restart)
		r.log.Warn("hangup: what has changed here takes a restart", "settings", strings.Join(restart, " "))
	} else if !said {
		r.log.Info("hangup: there is nothing to reload")
	}
}

// refuse says why nothing was reloaded. The text of several errors has several lines.
func (r *reloader) refuse(err error) {
	r.log.Error("hangup: nothing is reloaded, and all stays as it was", "err", strings.ReplaceAll(err.Error(), "\n", "; "))
}

// reloadFront has a process reload its certificate, its edge secrets, its rate limit, its
// trusted proxies and its logs. o are the settings in force, and cfg is what the shell was made of.
func reloadFront(r *reloader, o settings, shell *edge.Shell, cfg *edge.Config, now certificates, l *logs) {
	in, _ := o.front()
	r.add("the certificate", []string{"tls-cert", "tls-key"}, func(next settings) (change, error) {
		to, _ := next.front()
		if now == nil && to.tls.cert == "" {
			return change{}, nil
		}
		files, ok := now.(*front.CertificateFiles)
		if !ok || to.tls.cert == "" {
			return change{}, errRestart
		}
		pair, err := front.ReadCertificate(to.tls.cert, to.tls.key)
		if err != nil || files.Shows(pair) {
			return change{}, err
		}
		return change{"it expires " + pair.Leaf().NotAfter.UTC().Format(time.RFC3339), func() error {
			files.Use(pair, to.tls.cert, to.tls.key)
			return nil
		}}, nil
	})
	r.add("the edge secrets", []string{"edge-secret-file"}, func(next settings) (change, error) {
		_, path := next.front()
		secrets := cfg.EdgeSecrets
		if secrets == nil && path == "" {
			return change{}, nil
		}
		if secrets == nil || path == "" {
			return change{}, errRestart
		}
		all, err := readEdgeSecrets(path)
		if err != nil || secrets.Are(all...) {
			return change{}, err
		}
		return change{fmt.Sprintf("secrets that count: %d", len(all)), func() error { return secrets.Replace(all...) }}, nil
	})
	rate, trusted := in.rateLimit, in.trustedProxies
	r.add("the rate limit", []string{"rate-limit"}, func(next settings) (change, error) {
		to, _ := next.front()
		if to.rateLimit == rate {
			return change{}, nil
		}
		return change{fmt.Sprintf("%d requests a minute", to.rateLimit), func() error {
			rate = to.rateLimit
			shell.SetRateLimit(rate)
			return nil
		}}, nil
	})
	r.add("the trusted proxies", []string{"trusted-proxy"}, func(next settings) (change, error) {
		to, _ := next.front()
		switch {
		case slices.Equal(to.trustedProxies, trusted):
			return change{}, nil
		case to.clientIPHeader != in.clientIPHeader:
			return change{}, errRestart // they would be believed in a field that they may not set
		}
		proxies, err := to.proxies()
		return change{to.trustedProxies.String(), func() error {
			trusted = to.trustedProxies
			cfg.TrustedProxies.Replace(proxies)
			return nil
		}}, err
	})
	level := in.logs.level
	r.add("the level of the log", []string{"log-level"}, func(next settings) (change, error) {
		to, _ := next.front()
		if to.logs.level == level {
			return change{}, nil // the operator may have set another by webring log-level
		}
		parsed, err := logging.ParseLevel(to.logs.level)
		return change{to.logs.level, func() error {
			level = to.logs.level
			l.Level.Set(parsed)
			return nil
		}}, err
	})
	// The file of the access log may have a new one in its place, as after a rotation.
	r.add("the access log", []string{"access-log"}, func(next settings) (change, error) {
		to, _ := next.front()
		switch access := in.logs.access; {
		case to.logs.access != access:
			return change{}, errRestart
		case l.access == nil || access == "-":
			return change{}, nil
		default:
			return change{access, l.access.Reopen}, nil
		}
	})
}

// reloadKeys has an origin reload the keys of its challenges, from the file that it began
// with.
func reloadKeys(r *reloader, o *options, keys *server.Keyring) {
	r.add("the challenge keys", nil, func(settings) (change, error) {
		next, err := challengeKeys(o)
		switch {
		case err != nil:
			return change{}, err
		case next.Current == nil:
			return change{}, fmt.Errorf("--mpp-secret-file: %s is gone", secretPath(o))
		case reflect.DeepEqual(next, keys.Get()):
			return change{}, nil
		}
		return change{"keys: " + describeKeys(next), func() error { return keys.Set(next) }}, nil
	})
}

// reloadOrigins has an edge reload its list of origins.
func reloadOrigins(reload *reloader, r *follow.Replica, forwarder *forward.Forwarder) {
	reload.add("the origins", []string{"origin"}, func(next settings) (change, error) {
		list, err := follow.NewOrigins(next.(*edgeOptions).origins...)
		if err != nil {
			return change{}, fmt.Errorf("--origin: %w", err)
		}
		var urls []string
		for _, o := range list.Round() {
			urls = append(urls, o.URL)
		}
		now, _ := r.Followed()
		if slices.Sort(now); slices.Equal(now, slices.Sorted(slices.Values(urls))) {
			return change{}, nil
		}
		return change{strings.Join(urls, ", "), func() error {
			return errors.Join(r.SetOrigins(urls...), forwarder.SetOrigins(urls...))
		}}, nil
	})
}
