package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func names(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestAFileTakesThePlaceOfTheOneBefore(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "key")
	for _, text := range []string{"one", "the second", ""} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(got) != text || info.Mode() != 0o600 {
			t.Errorf("%q %v %v, want %q", got, err, info.Mode(), text)
		}
	}
	if got := names(t, folder); got != "key" {
		t.Errorf("the folder holds %s", got)
	}
}

// A file that is not written to its end leaves the one before, and nothing else.
func TestAFileIsThereWholeOrNotAtAll(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "key")
	if err := Write(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	err := Create(folder, 0o600, func(w io.Writer) (string, error) {
		w.Write([]byte("half"))
		return "key", full
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if err := Create(folder, 0o600, func(io.Writer) (string, error) { return filepath.Join("none", "key"), nil }); err == nil {
		t.Error("a name in a folder that is not there is accepted")
	}
	if got, _ := os.ReadFile(path); string(got) != "before" || names(t, folder) != "key" {
		t.Errorf("%q, and the folder holds %s", got, names(t, folder))
	}
}
