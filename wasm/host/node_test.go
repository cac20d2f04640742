package host

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"webring/core/abi"
)

// nodeScripts is how many of the scripts Node answers.
const nodeScripts = 30

// workerImports are the imports that the Worker gives the module.
const workerImports = "../../edge/worker/wasi.js"

// The module stands for itself: a host that is not ours gets the same bytes
// from it, and so does the Worker's.
func TestNodeAnswersTheSame(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs Node 20 or newer, whose WASI is the other host: install it from your distribution or nodejs.org")
	}
	var script []byte
	var want [][]byte
	native := abi.New(0, 1)
	for seed := range uint64(nodeScripts) {
		s := newScript(seed)
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
		snapshot := ask(s.calls)
		ask(s.after(snapshot[25:]))
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"core.wasm": guest(t), "script": script} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The go command forgets a result when a file that the test read changes.
	if _, err := os.ReadFile(workerImports); err != nil {
		t.Fatal(err)
	}
	for _, imports := range []string{"", workerImports} {
		answers(t, node, dir, imports, want)
	}
}

// answers compares what Node answers to the script in a folder, with imports by a file.
func answers(t *testing.T, node, dir, imports string, want [][]byte) {
	t.Helper()
	cmd := exec.Command(node, "--no-warnings", filepath.Join("testdata", "answer.mjs"),
		filepath.Join(dir, "core.wasm"), filepath.Join(dir, "script"), filepath.Join(dir, "replies"), imports)
	if complaint, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, complaint)
	}
	out, err := os.ReadFile(filepath.Join(dir, "replies"))
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if len(out) < 4 || uint64(binary.LittleEndian.Uint32(out)) > uint64(len(out)-4) {
			t.Fatalf("Node with the imports of %q stopped after %d of %d replies", imports, i, len(want))
		}
		n := binary.LittleEndian.Uint32(out)
		if got := out[4 : 4+n]; !bytes.Equal(got, w) {
			t.Fatalf("reply %d: Node with the imports of %q %q, native %q", i, imports, got, w)
		}
		out = out[4+n:]
	}
	if len(out) > 0 {
		t.Errorf("Node says %d bytes more", len(out))
	}
}
