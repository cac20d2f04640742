package server

import (
	"testing"
	"time"

	"webring/server/paid"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
)

// What challenges may name is less than what the store of reports keeps, however many scans
// are asked for, and stays for as long as it may be paid for.
func TestReportsStayWhileChallengesNameThem(t *testing.T) {
	if named := score.KeptFor(40, 40) + paid.ChallengeLife; named+localLimits.Ask >= local.InChallenges {
		t.Errorf("a report is named for %s, and kept for %s", named, local.InChallenges)
	}
	minutes := int(local.InChallenges/time.Minute) + 1
	if scans := minutes * localLimits.InAll; scans >= local.MaxDrafts {
		t.Errorf("%d scans may be made in %d minutes, and %d drafts are stored", scans, minutes, local.MaxDrafts)
	}
}
