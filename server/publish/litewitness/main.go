// Command litewitness runs the litewitness of torchwood, for tests, with a log and a key: it fills
// its database, and is the ssh-agent that holds its key. It ends when its standard input does. Both
// are in a go.mod of their own, so that nothing else depends on them.
//
//	litewitness BINARY FOLDER LISTEN NAME SEED ORIGIN VERIFIER
package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(binary, dir, listen, name, seed, origin, verifier string) error {
	db := filepath.Join(dir, "litewitness.db")
	if err := fill(db, origin, verifier); err != nil {
		return err
	}
	b, err := hex.DecodeString(seed)
	if err != nil {
		return err
	}
	key := ed25519.NewKeyFromSeed(b)
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return err
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "agent")
	os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(keys, conn)
		}
	}()
	cmd := exec.Command(binary, "-db", db, "-name", name, "-key", ssh.FingerprintSHA256(public), "-ssh-agent", socket, "-listen", listen)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cmd.Process.Kill()
	}()
	return cmd.Wait()
}

// fill makes the database, with a log of which nothing has been seen, unless it is there.
func fill(path, origin, verifier string) error {
	db, err := sqlite.OpenConn(path)
	if err != nil {
		return err
	}
	defer db.Close()
	err = sqlitex.ExecuteScript(db, `
		CREATE TABLE IF NOT EXISTS log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL);
		CREATE TABLE IF NOT EXISTS key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin));
		DELETE FROM key;`, nil)
	if err != nil {
		return err
	}
	nothing := sha256.Sum256(nil)
	err = sqlitex.Execute(db, "INSERT OR IGNORE INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)",
		&sqlitex.ExecOptions{Args: []any{origin, base64.StdEncoding.EncodeToString(nothing[:])}})
	if err != nil {
		return err
	}
	return sqlitex.Execute(db, "INSERT INTO key (origin, key) VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{origin, verifier}})
}
