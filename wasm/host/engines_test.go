package host

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"webring/core/abi"
	"webring/server/devchain"
)

// workerFolder has the Worker, and by npm what else runs it.
const workerFolder = "../../edge/worker"

// An engine runs the module in a program of its own. It finds the module, the script and
// the programs under testdata in a folder, and gives the replies.
type engine struct {
	name   string
	answer func(t *testing.T, dir string) []byte
}

var engines = []engine{
	{"Node with its own WASI", func(t *testing.T, dir string) []byte {
		return written(t, dir, node(t), "--no-warnings", "answer.mjs", "node:wasi")
	}},
	{"Node", func(t *testing.T, dir string) []byte {
		return written(t, dir, node(t), "answer.mjs")
	}},
	{"Deno", func(t *testing.T, dir string) []byte {
		t.Setenv("DENO_DIR", t.TempDir())
		t.Setenv("DENO_NO_UPDATE_CHECK", "1")
		return written(t, dir, fromNPM(t, "deno"), "run", "--no-config", "--allow-read", "--allow-write", "answer.mjs")
	}},
	{"workerd", func(t *testing.T, dir string) []byte {
		return written(t, dir, fromNPM(t, "workerd"), "test", "workerd.capnp", "--directory-path", "folder="+dir)
	}},
	{"Chromium", sentByChromium},
}

// The module stands for itself: hosts that are not ours get the same bytes from it. But for
// Node's WASI, all give it the imports of the Worker.
func TestEveryEngineAnswersTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts other programs, which the short run does not")
	}
	if raceDetector {
		t.Skip("engines are programs of their own, in which the race detector sees nothing: the run without it has this test")
	}
	script, want := inAll(t)
	dir := t.TempDir()
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("core.wasm", guest(t))
	write("script", script)
	for _, path := range []string{filepath.Join(workerFolder, "wasi.js"), "testdata/replies.mjs", "testdata/answer.mjs",
		"testdata/workerd.capnp", "testdata/workerd.mjs", "testdata/index.html", "testdata/browser.mjs"} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Base(path), content)
	}
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) { sameReplies(t, e.name, e.answer(t, dir), want) })
	}
}

// written runs a program in a folder, and gives the replies that it writes there.
func written(t *testing.T, dir, program string, args ...string) []byte {
	t.Helper()
	path := filepath.Join(dir, "replies")
	defer os.Remove(path)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	complaint, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint)
	}
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: %s", err, complaint)
	}
	return out
}

func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs Node 20 or newer: install it from your distribution or nodejs.org")
	}
	return path
}

// fromNPM gives a program that npm has brought for the Worker.
func fromNPM(t *testing.T, name string) string {
	t.Helper()
	if err := devchain.FindNode(); err != nil {
		t.Skip(err)
	}
	if err := devchain.InstallIn(t.Context(), workerFolder); err != nil {
		t.Fatal(err)
	}
	path, err := devchain.Program(workerFolder, name)
	if err != nil {
		t.Skip(err)
	}
	return path
}

// inAll gives what fuzzing has found and a tenth of the scripts as one list of calls, as
// testdata/replies.mjs reads it, and the native replies.
func inAll(t *testing.T) (script []byte, want [][]byte) {
	t.Helper()
	native := abi.New(0, 1)
	ask := func(calls []call) (last []byte) {
		for _, c := range calls {
			script = binary.LittleEndian.AppendUint32(script, c.op)
			script = binary.LittleEndian.AppendUint64(script, c.arg)
			script = binary.LittleEndian.AppendUint32(script, uint32(len(c.in)))
			script = append(script, c.in...)
			want = append(want, bytes.Clone(native.Call(c.op, c.arg, c.in)))
		}
		return want[len(want)-1]
	}
	ask(foundCalls(found(t)))
	for seed := range *scripts / 10 { // a call takes engines longer than wazero
		s := newScript(seed)
		snapshot := ask(s.calls)
		ask(s.after(snapshot[25:]))
	}
	return script, want
}

// sameReplies compares what a program answers to inAll.
func sameReplies(t *testing.T, program string, out []byte, want [][]byte) {
	t.Helper()
	for i, w := range want {
		if len(out) < 4 || uint64(binary.LittleEndian.Uint32(out)) > uint64(len(out)-4) {
			t.Fatalf("%s stopped after %d of %d replies", program, i, len(want))
		}
		n := binary.LittleEndian.Uint32(out)
		if got := out[4 : 4+n]; !bytes.Equal(got, w) {
			t.Fatalf("reply %d: %s %q, native %q", i, program, got, w)
		}
		out = out[4+n:]
	}
	if len(out) > 0 {
		t.Errorf("%s says %d bytes more", program, len(out))
	}
	t.Logf("%s: %d replies", program, len(want))
}
