package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// raced are the tests whose processes run under the race detector, and make test runs them
// with it alone. Together they have goroutines of each kind at work at a time: payers,
// readers, edges that follow, nodes that take over, owners, scorers, reloads. The Makefile
// reads this list.
var raced = []string{
	"TestACertificateIsReplacedUnderLoad",
	"TestAClusterOutlivesItsLeader",
	"TestAHangupReadsTheConfigurationAgain",
	"TestARingOutlivesItsMachines",
	"TestAnOriginIsWatched",
	"TestBothOffersArePaidByTheReferenceClient",
	"TestCrowdsDoNotStopAPayment",
	"TestEdgesGoOnWithoutTheOrigin",
	"TestEdgesShowWhatTheOriginDoes",
	"TestManyScoringsAtOnce",
	"TestOneCredentialAtManyNodes",
	"TestOwnersKeepTheirPlace",
	"TestPayersReadTheirOwnWritesAtEveryEdge",
	"TestTwentyCopiesAtOnceHaveOneEffect",
}

// processes skips the others under the race detector: a program with it runs many
// times slower.
func processes(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if raceDetector && !slices.Contains(raced, name) {
		t.Skip("its processes run without the race detector; raced_test.go lists those that run with it")
	}
}

// noRaces says whether no process reported a race, and prints the first log that has one.
func noRaces() bool {
	if !raceDetector || shared.dir == "" {
		return true
	}
	logs, err := filepath.Glob(filepath.Join(logFolder(), "*"))
	if err != nil {
		fmt.Println("FAIL:", err)
		return false
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil || bytes.Contains(text, []byte("WARNING: DATA RACE")) {
			fmt.Printf("FAIL: a race in a process, or its log is not to be read (%v):\n%s\n", err, text)
			return false
		}
	}
	return true
}

// TestRacedTestsExist holds raced against the tests that there are.
func TestRacedTestsExist(t *testing.T) {
	var source []byte
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	for _, name := range raced {
		if !bytes.Contains(source, []byte("\nfunc "+name+"(t *testing.T) {")) {
			t.Errorf("there is no %s", name)
		}
	}
}
