package fair

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestPlacesGoToThoseWhoHoldFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(Rule{Most: 6})
		a, b, c := AskerOf("198.51.100.1"), AskerOf("203.0.113.1"), AskerOf("2001:db8:1:1::/64")
		for range 2 {
			if err := p.Enter(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		third := make(chan error)
		go func() { third <- p.Enter(t.Context(), a) }()
		synctest.Wait()
		for _, asker := range []Asker{b, c} { // who came later do not wait
			if err := p.Enter(t.Context(), asker); err != nil {
				t.Fatal(err)
			}
			p.Leave(asker)
		}
		select {
		case err := <-third:
			t.Fatalf("one asker holds three places: %v", err)
		default:
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Enter(impatient, a); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		p.Leave(a)
		if err := <-third; err != nil {
			t.Error(err)
		}
		p.Leave(a)
		p.Leave(a)
		if p.Taken() != 0 || len(p.waiting) != 0 {
			t.Errorf("%d places are held, %d wait", p.Taken(), len(p.waiting))
		}
	})
}
