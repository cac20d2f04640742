package main

import (
	"fmt"
	"reflect"
	"slices"

	"webring/edge"
	"webring/edge/front"
	"webring/edge/voucher"
	"webring/server"
)

// frontParts are what an origin and an edge have in common and can reload.
type frontParts struct {
	shell        *edge.Shell
	proxies      front.Proxies
	secrets      *voucher.Secrets // nil without
	certificates certificates     // nil without
	logs         *logs
}

// reloadFront has a process reload its certificate, its edge secrets, its rate limit, its
// trusted proxies and its logs. o are the flags in force; of gives those flags of a command that
// belong to the front.
func reloadFront[O any](r *reloader[O], now frontParts, o *O, of func(*O) (*shellFlags, string)) {
	r.add(part[O]{"the certificate", []string{"tls-cert", "tls-key"}, func(next *O) (change, error) {
		shell, _ := of(next)
		if now.certificates == nil && shell.tls.cert == "" {
			return change{}, nil
		}
		return reloadTLS(now.certificates, &shell.tls)
	}})
	r.add(part[O]{"the edge secrets", []string{"edge-secret-file"}, func(next *O) (change, error) {
		_, path := of(next)
		if now.secrets == nil && path == "" {
			return change{}, nil
		}
		return reloadEdgeSecrets(now.secrets, path)
	}})
	shell, _ := of(o)
	rate, trusted, field := shell.rateLimit, shell.trustedProxies, shell.clientIPHeader
	r.add(part[O]{"the rate limit", []string{"rate-limit"}, func(next *O) (change, error) {
		shell, _ := of(next)
		if shell.rateLimit == rate {
			return change{}, nil
		}
		return change{said: fmt.Sprintf("%d requests a minute", shell.rateLimit), apply: func() error {
			rate = shell.rateLimit
			now.shell.SetRateLimit(rate)
			return nil
		}}, nil
	}})
	r.add(part[O]{"the trusted proxies", []string{"trusted-proxy"}, func(next *O) (change, error) {
		shell, _ := of(next)
		switch {
		case slices.Equal(shell.trustedProxies, trusted):
			return change{}, nil
		case shell.clientIPHeader != field:
			return change{}, errRestart // they would be believed in a field that they may not set
		}
		proxies, err := shell.proxies()
		return change{said: shell.trustedProxies.String(), apply: func() error {
			trusted = shell.trustedProxies
			now.proxies.Replace(proxies)
			return nil
		}}, err
	}})
	reloadLogs(r, now.logs, &shell.logs, func(next *O) *logFlags {
		shell, _ := of(next)
		return &shell.logs
	})
}

// reloadKeys has an origin reload the keys of its challenges, from the file that it began
// with.
func reloadKeys(r *reloader[options], o *options, keys *server.Keyring) {
	r.add(part[options]{"the challenge keys", nil, func(*options) (change, error) {
		next, err := challengeKeys(o)
		switch {
		case err != nil:
			return change{}, err
		case next.Current == nil:
			return change{}, fmt.Errorf("--mpp-secret-file: %s is gone", secretPath(o))
		case reflect.DeepEqual(next, keys.Get()):
			return change{}, nil
		}
		return change{said: "keys: " + describeKeys(next), apply: func() error { return keys.Set(next) }}, nil
	}})
}
