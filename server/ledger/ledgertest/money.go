package ledgertest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"webring/server/ledger"
)

// reservations begins the key of a stored reservation; its id is the rest.
const reservations = "r"

// broadcasts holds that each payment that was sent was reserved before.
func (c *checker) broadcasts() error {
	since := map[string]uint64{} // the transaction that first stored a reservation, by id
	for _, e := range c.Log {
		for key := range e.Rows {
			if id, ok := strings.CutPrefix(key, reservations); ok {
				if s, known := since[id]; !known || e.Serial < s {
					since[id] = e.Serial
				}
			}
		}
	}
	for _, b := range c.Broadcasts {
		serial, logged := since[b.Payment]
		switch {
		case c.longest.payments[b.Payment] == nil:
			c.violated(Reserved, "%s sent payment %s, of which there is no reservation", b.Node, b.Payment)
		case len(c.Log) > 0 && logged && serial > b.Head:
			c.violated(Reserved, "%s sent payment %s at transaction %d; its reservation is transaction %d", b.Node, b.Payment, b.Head, serial)
		}
	}
	return nil
}

// transfers holds that the books have what the chain has, by transaction and in all.
func (c *checker) transfers() error {
	if c.Transfers == nil {
		return nil
	}
	booked, came := map[string]int64{}, map[string]int64{}
	events := map[transaction]int{}
	for seq, e := range c.events {
		if e.payment.Transaction == "" {
			continue
		}
		booked[e.payment.Network] += e.cents
		key := transaction{e.payment.Network, strings.ToLower(e.payment.Transaction)}
		if before, again := events[key]; again {
			c.violated(OneEffect, "events %d and %d are both about transaction %s of %s", before, seq, key.reference, key.network)
		}
		events[key] = seq
	}
	for _, t := range c.Transfers {
		came[t.Network] += t.Cents
		var cents int64
		var err error
		c.longest.Books.View(func(v *ledger.View) { cents, err = v.Credited(t.Network, t.Transaction) })
		if err != nil {
			return err
		}
		if cents != t.Cents {
			c.violated(Balance, "transaction %s of %s brought %d cents, and events gave %d for it", t.Transaction, t.Network, t.Cents, cents)
		}
	}
	networks := maps.Clone(booked)
	maps.Copy(networks, came)
	for _, n := range slices.SortedFunc(maps.Keys(networks), cmp.Compare) {
		if booked[n] != came[n] {
			c.violated(Balance, "%d cents came by %s, and the books have %d", came[n], n, booked[n])
		}
	}
	return nil
}

// transaction is a transaction of a network.
type transaction struct{ network, reference string }
