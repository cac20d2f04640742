package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"webring/server"
	"webring/server/logging/logscan"
	"webring/server/pay/x402"
)

// What every process of these tests has written to its standard error is kept in files
// until all tests are over. Then nothing is found there that no log may hold: the keys of
// wallets and of processes, all credentials, receipts and Idempotency-Keys that went over
// the wire, and the addresses that clients were said to have.
var unloggable logscan.Scanner

// receiptField is the field of an answer that proves a payment.
const receiptField = "Payment-Receipt"

// logFolder is where the logs are kept.
func logFolder() string { return filepath.Join(shared.dir, "logs") }

// keepLog gives the file for what a process that is about to start writes. The secrets
// that its flags and its folder hold are known from then on, and those that it makes when
// the file is closed.
func keepLog(o *origin) *keptLog {
	o.t.Helper()
	if err := os.MkdirAll(logFolder(), 0o700); err != nil {
		o.t.Fatal(err)
	}
	f, err := os.CreateTemp(logFolder(), strings.ReplaceAll(o.t.Name(), "/", "-")+"-*.log")
	if err != nil {
		o.t.Fatal(err)
	}
	files := []string{secretPath(&options{data: o.data}), server.SyncKeyPath(o.data), server.NextKeyPath(o.data)}
	for i, arg := range o.args {
		if strings.HasPrefix(arg, "--") && i+1 < len(o.args) && (strings.Contains(arg, "secret") || arg == "--tls-key") {
			files = append(files, o.args[i+1])
		}
	}
	k := &keptLog{File: f, secrets: files}
	k.learn()
	return k
}

type keptLog struct {
	*os.File
	secrets []string // files
}

// learn reads the secrets of those files that are there.
func (k *keptLog) learn() {
	for _, name := range k.secrets {
		if i, err := os.Stat(name); err != nil || !i.Mode().IsRegular() {
			continue // not there, or a pipe, which would wait for its other end
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue // not made yet, or never
		}
		for line := range strings.FieldsSeq(string(text)) {
			unloggable.Secret("a key of "+filepath.Base(name), line)
		}
	}
}

// Close learns what the process has made before its folder goes.
func (k *keptLog) Close() error {
	k.learn()
	return k.File.Close()
}

// sentField takes note of a header field that went over the wire.
func sentField(name, value string) {
	switch {
	case value == "":
	case name == "Authorization":
		unloggable.Secret("a credential", strings.TrimSpace(strings.TrimPrefix(value, "Payment ")))
	case strings.EqualFold(name, x402.SignatureField):
		unloggable.Secret("an x402 payment", value)
	case name == receiptField:
		unloggable.Secret("a receipt", value)
	case name == "Idempotency-Key":
		unloggable.Secret("an Idempotency-Key", value)
	case name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded") || strings.HasSuffix(name, "Connecting-IP"):
		unloggable.Clients(value)
	}
}

// logsAreClean scans all logs of the run, and says what is wrong with them.
func logsAreClean() bool {
	if shared.dir == "" {
		return true // no process was started
	}
	files, found, err := unloggable.ScanFolder(logFolder())
	fmt.Printf("scanned the logs of %d processes for secrets, credentials, receipts and addresses of clients\n", files)
	if err != nil {
		found = append(found, err.Error())
	}
	for _, what := range found {
		fmt.Println("FAIL: a log holds what no log may hold:", what)
	}
	return len(found) == 0
}
