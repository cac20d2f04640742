package devchain

import (
	"os/exec"
	"path/filepath"
	"strings"
)

// Command is how a person pays with the reference client: a program with arguments, and the
// environment variables to add.
type Command struct {
	Env  []string // "MPPX_PRIVATE_KEY=0x…"
	Args []string // Args[0] is the program
}

// CLI is the command that posts body, a JSON text in ASCII, to url with the wallet of
// key and pays over the node at rpc; it prints the headers of both exchanges.
// dir is the folder of this package as it should appear in the command.
func CLI(dir, key, rpc, url, body string) Command {
	// A quotation mark in a word is written differently in every shell, and in JSON
	// like this.
	body = strings.ReplaceAll(body, "'", `\u0027`)
	return Command{
		Env:  []string{"MPPX_PRIVATE_KEY=" + key},
		Args: []string{filepath.Join(dir, "node_modules", ".bin", "mppx"), url, "-J", body, "-r", rpc, "-i"},
	}
}

// String is the command as one line, for POSIX shells and for PowerShell, which sets
// no environment for a single command by itself. No word may have a ' in it.
func (c Command) String() string {
	words := append([]string{"env"}, c.Env...)
	for _, arg := range c.Args {
		words = append(words, shellQuote(arg))
	}
	return strings.Join(words, " ")
}

// Cmd is the command ready to run, with environment env before its own.
func (c Command) Cmd(env []string) *exec.Cmd {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = append(append([]string(nil), env...), c.Env...)
	return cmd
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+%") == "" {
		return s
	}
	return "'" + s + "'"
}
