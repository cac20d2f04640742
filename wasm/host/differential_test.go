package host

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"webring/core/abi"
	"webring/core/coretest"
)

var (
	update      = flag.Bool("update", false, "write the golden files anew")
	scripts     = flag.Uint64("scripts", 250, "how many of the 1000 `scripts` run natively and compiled")
	interpreted = flag.Uint64("interpreted", 5, "how many of them the interpreter runs, too")
)

// allScripts is how many seeds there are.
const allScripts = 1000

// golden compares with a file under testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has changed; if that is meant, run with -update.\ngot  %s\nwant %s", path, got, want)
	}
}

// leg is one build of the core in one engine. All are asked through the same
// entry, and whole replies are compared: answers, positions, and the words of
// refusals.
type leg struct {
	name   string
	call   func(c call) ([]byte, error)
	digest hash.Hash // of all replies
}

func nativeLeg(name string) *leg {
	c := abi.New(0, 1)
	return &leg{name: name, digest: sha256.New(), call: func(q call) ([]byte, error) { return c.Call(q.op, q.arg, q.in), nil }}
}

func wasmLeg(t testing.TB, name string, interpreter bool) *leg {
	p := newPool(t, PoolConfig{Instances: 1, Interpreter: interpreter})
	in := p.slots[0].in
	return &leg{name: name, digest: sha256.New(), call: func(q call) ([]byte, error) {
		// The head of the reply was decoded from the same bytes.
		reply, err := in.do(q.op, q.arg, q.in)
		return append(encodeHead(reply), reply.Rest...), err
	}}
}

// encodeHead is the head of a reply as [abi.Core.Call] writes it.
func encodeHead(r abi.Reply) []byte {
	head := make([]byte, 25)
	if r.Refused {
		head[0] = 1
	}
	for i := range 8 {
		head[1+i], head[9+i], head[17+i] = byte(r.Seq>>(8*i)), byte(r.Second>>(8*i)), byte(r.Last>>(8*i))
	}
	return head
}

// run has all legs answer calls, and gives the last reply.
func run(t *testing.T, seed uint64, calls []call, legs []*leg) (last []byte) {
	t.Helper()
	for i, c := range calls {
		for n, l := range legs {
			reply, err := l.call(c)
			if err != nil {
				t.Fatalf("seed %d, call %d, operation %d(%d, %q): %s: %v", seed, i, c.op, c.arg, c.in, l.name, err)
			}
			if n == 0 {
				last = bytes.Clone(reply)
			} else if !bytes.Equal(reply, last) {
				t.Fatalf("seed %d, call %d, operation %d(%d, %q):\n%s: %q\n%s: %q", seed, i, c.op, c.arg, c.in, legs[0].name, last, l.name, reply)
			}
			l.digest.Write(reply)
		}
	}
	return last
}

// Every build of the core in every engine gives the same bytes, for histories,
// targets and damage of all kinds; and they are the bytes that it gave before.
func TestEveryBuildAnswersTheSame(t *testing.T) {
	if raceDetector {
		t.Skip("it has one goroutine: the run without the race detector has this test")
	}
	native := nativeLeg("native")
	legs := []*leg{native, nativeLeg("native again"), wasmLeg(t, "compiled", false), wasmLeg(t, "interpreted", true)}
	short := legs[:len(legs)-1]
	var digests string
	met := map[[2]uint32]int{}
	counted := *native
	counted.call = func(c call) ([]byte, error) {
		reply, err := native.call(c)
		met[[2]uint32{c.op, uint32(reply[0])}]++
		return reply, err
	}
	legs[0] = &counted
	inputs := found(t)
	if len(inputs) < 200 {
		t.Errorf("fuzzing has found only %d inputs", len(inputs))
	}
	run(t, 0, foundCalls(inputs), legs)
	if testing.Short() {
		*scripts = min(*scripts, 25)
	}
	for seed := range *scripts {
		if seed == *interpreted {
			legs = short
		}
		s := newScript(seed)
		snapshot := run(t, seed, s.calls, legs)
		run(t, seed, s.after(snapshot[25:]), legs)
		switch seed + 1 {
		case 15, 250, allScripts:
			digests += fmt.Sprintf("%d %x\n", seed+1, native.digest.Sum(nil))
		}
	}
	for seed := range uint64(20) {
		s := newScript(coretest.Matched + seed)
		snapshot := run(t, coretest.Matched+seed, s.calls, legs)
		run(t, coretest.Matched+seed, s.after(snapshot[25:]), legs)
	}
	for _, l := range legs {
		if !bytes.Equal(l.digest.Sum(nil), native.digest.Sum(nil)) {
			t.Errorf("%s has the digest %x, native %x", l.name, l.digest.Sum(nil), native.digest.Sum(nil))
		}
	}
	if *scripts == allScripts {
		golden(t, "differential.txt", digests)
	} else if all, err := os.ReadFile("testdata/differential.txt"); err != nil || !strings.HasPrefix(string(all), digests) {
		t.Errorf("got\n%swant the beginning of\n%s%v", digests, all, err)
	}
	for _, op := range []uint32{abi.OpLoaded, abi.OpPiece, abi.OpApply} {
		for refused := range uint32(2) {
			if met[[2]uint32{op, refused}] < int(*scripts) {
				t.Errorf("operation %d met the outcome %d only %d times", op, refused, met[[2]uint32{op, refused}])
			}
		}
	}
	if n := met[[2]uint32{abi.OpServe, 0}]; n < int(*scripts)*scriptTargets {
		t.Errorf("only %d targets were answered", n)
	}
}

// The module asks its host for this and nothing else: time and random bits for
// the Go runtime, and standard error for its last words. A longer list is a
// reason to look what the core has begun to do.
func TestTheModuleImportsWhatItDid(t *testing.T) {
	p := newPool(t, PoolConfig{Instances: 1})
	var list bytes.Buffer
	for _, f := range p.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		fmt.Fprintln(&list, module, name)
	}
	for _, m := range p.compiled.ImportedMemories() {
		module, name, _ := m.Import()
		fmt.Fprintln(&list, "memory", module, name)
	}
	golden(t, "imports.txt", list.String())
}
