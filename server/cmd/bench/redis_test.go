package main

import (
	"slices"
	"strings"
	"testing"
)

func TestPlacesAreReadFromAPageOfTheLeaderboard(t *testing.T) {
	page := `{"total":3,"rules":{"ranking":"The higher effective_bid_usd"},"leaderboard":[` +
		`{"slug":"one","description":"\"slug\":\"two\",\"effective_bid_usd\":\"9.99\"","effective_bid_usd":"1602.57","rank":1},` +
		`{"slug":"three","effective_bid_usd":"0.00","links":{"self":"x"},"rank":2,"to_pass":{"amount_usd":"1.47","rank":1,"slug":"one"}},` +
		`{"slug":"four","effective_bid_usd":"0.10","to_pass":{"amount_usd":"1.00","rank":2,"slug":"three"}}]}`
	got, err := places(strings.NewReader(page))
	if want := []place{{"one", "160257"}, {"three", "000"}, {"four", "010"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := places(strings.NewReader(`{"leaderboard":[]}`)); err != nil || len(got) > 0 {
		t.Errorf("an empty page: %v, %v", got, err)
	}
	if _, err := places(strings.NewReader(`{"leaderboard":[{"slug":"one"}]}`)); err == nil {
		t.Error("a row without a standing was taken")
	}
}
