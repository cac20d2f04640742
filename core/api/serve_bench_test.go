package api_test

import (
	"testing"

	"webring/core/api"
)

func BenchmarkServe(b *testing.B) {
	r := crowd(b, 1000)
	for _, target := range []string{"/next?from=m500", "/api/ring/next?from=https%3A%2F%2Fm500.example%2Fa%2Fb", "/api/widget?from=m500.example", "/api/ring/m500", "/api/ring", "/api/leaderboard"} {
		b.Run(target, func(b *testing.B) {
			raw, res := []byte(target), new(api.Response)
			b.ReportAllocs()
			for b.Loop() {
				api.Serve(r.State, raw, 7, res)
			}
		})
	}
}
