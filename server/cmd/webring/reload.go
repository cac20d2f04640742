package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// catchHangups keeps hangups from ending the process from now on. A terminal that closes
// sends one, or a supervisor.
func catchHangups() (hangups chan os.Signal) {
	hangups = make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// errRestart is the error of a part that cannot change to its new flags without a restart.
var errRestart = errors.New("it takes a restart")

// change is the second step of a part's reload. apply runs once all parts are prepared, and
// said goes into the log. The zero value stands for a part that has not changed.
type change struct {
	said  string
	apply func() error
}

// part is something that a process can reload. flags are the names of its flags. prepare
// reads its files by the flags in next, and changes nothing yet.
type part[O any] struct {
	name    string
	flags   []string
	prepare func(next *O) (change, error)
}

// reloader reads the configuration of a process again on a hangup. O are the flags of its
// command.
type reloader[O any] struct {
	hangups <-chan os.Signal
	read    func() (*O, *flag.FlagSet, error)
	inForce map[string]string // the values by flag
	parts   []part[O]
	log     *slog.Logger
}

// flagged are the flags of serve or of edge.
type flagged[O any] interface {
	*O
	flags() *flag.FlagSet
	validate() error
}

// loadOptions reads the flags of a command, and gives what reads them again.
func loadOptions[O any, P flagged[O]](args []string) (*O, *reloader[O], error) {
	r := &reloader[O]{hangups: catchHangups(), read: func() (*O, *flag.FlagSet, error) {
		o := P(new(O))
		fs := o.flags()
		err := parse(fs, args)
		if err == nil {
			err = o.validate()
		}
		return (*O)(o), fs, err
	}}
	o, fs, err := r.read()
	if err != nil {
		return o, nil, err
	}
	r.inForce = values(fs)
	return o, r, nil
}

// values gives the values of flags by their names.
func values(fs *flag.FlagSet) map[string]string {
	all := map[string]string{}
	fs.VisitAll(func(f *flag.Flag) { all[f.Name] = f.Value.String() })
	return all
}

// add has a part reloaded on each hangup. It is for the time before run.
func (r *reloader[O]) add(p part[O]) { r.parts = append(r.parts, p) }

// run reloads on each hangup, one that came before included, until ctx is done.
func (r *reloader[O]) run(ctx context.Context) {
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
func (r *reloader[O]) reload() {
	next, fs, err := r.read()
	if err != nil {
		r.refuse(err)
		return
	}
	now := values(fs)
	var restart []string // flags that differ and take one
	differs := func(name string) bool { return now[name] != r.inForce[name] }
	for name := range now {
		if differs(name) && !slices.ContainsFunc(r.parts, func(p part[O]) bool { return slices.Contains(p.flags, name) }) {
			restart = append(restart, name)
		}
	}
	var changes []change
	var reloaded []part[O]
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
func (r *reloader[O]) refuse(err error) {
	r.log.Error("hangup: nothing is reloaded, and all stays as it was", "err", strings.ReplaceAll(err.Error(), "\n", "; "))
}
