package tlog

import (
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// What the documents of C2SP give as examples, byte for byte.
const (
	// signed-note, "Verifier keys".
	noteKey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
	aNote   = "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
	// tlog-cosignature; the keys are not in it.
	cosignedExample = example + "\n— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n" +
		"— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
	signedMessage = "cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	// tlog-proof; its signatures are shortened.
	proofExample = `c2sp.org/tlog-proof@v1
extra YWdlLXYxLjIuMS1kYXJ3aW4tYXJtNjQudGFyLmd6kYXJ3aW4tYXJ
index 73894
gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=
B95lDa8R83lS8n0eG+o0buTxRKQTYFi//1U8anccXmA=
EKNzoDWG8LGC0Yp9o+sv3qllpMP9uHQ9B20KNL+Q1zs=
RoopEkOdqkYqMB4MJXrbt/hMjOxsVn0IrWjpz1ZMMes=
AHCioX9nLjsrse6YhjRRmk1WUEirVOLLRoOQ6vfO5vk=

example.com/fancylog
109482
sFodV/vSp5O8n9a8QpW6PRY97tfOSW5bsc2Xl/EQi08=

— example.com/fancylog hI2DJw[...]1roloI=
— witness1.example mJirIklj[...]qY9v2B/5bg==
`
	// tlog-policy, with the places of keys numbered.
	policyExample = `log <0>

witness X1 <1>
witness X2 <2>
witness X3 <3>
group X-witnesses 2 X1 X2 X3

witness Y1 <4>
witness Y2 <5>
witness Y3 <6>
group Y-witnesses any Y1 Y2 Y3

group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
`
)

func TestExamplesOfTheSpecifications(t *testing.T) {
	keys, err := Keys(noteKey)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := note.Open([]byte(aNote), keys); err != nil || len(n.Sigs) != 1 {
		t.Errorf("signed-note: %v", err)
	}
	if n, err := note.Open([]byte(strings.Replace(aNote, "an", "no", 1)), keys); err == nil {
		t.Errorf("signed-note: another text is %+v", n)
	}

	_, err = note.Open([]byte(cosignedExample), note.VerifierList())
	unverified, ok := err.(*note.UnverifiedNoteError)
	if !ok || len(unverified.Note.UnverifiedSigs) != 2 {
		t.Fatalf("tlog-cosignature: %v", err)
	}
	at := cosignedAt(unverified.Note.UnverifiedSigs[1]).Unix()
	if at != 1679315147 || string(cosignedText([]byte(unverified.Note.Text), uint64(at))) != signedMessage {
		t.Errorf("tlog-cosignature: %d, %s", at, cosignedText([]byte(unverified.Note.Text), uint64(at)))
	}

	if p, err := ParseProof([]byte(proofExample)); err != nil || p.Index != 73894 || len(p.Hashes) != 5 || !strings.HasPrefix(string(p.Entry), "age-v1.2.1-darwin-arm64.tar.gz") {
		t.Errorf("tlog-proof: %+v, %v", p, err)
	}

	// tlog-tiles, "Merkle Tree", and "Partial Tiles".
	var paths []string
	for level, size := 0, int64(70_000); size > 0; level, size = level+1, size/TileWidth {
		if n := size / TileWidth; n > 0 {
			paths = append(paths, TilePath(tlog.Tile{H: TileHeight, L: level, N: n - 1, W: TileWidth}))
		}
		paths = append(paths, TilePath(tlog.Tile{H: TileHeight, L: level, N: size / TileWidth, W: int(size % TileWidth)}))
	}
	if got := strings.Join(paths, " "); got != "/log/tile/0/272 /log/tile/0/273.p/112 /log/tile/1/000 /log/tile/1/001.p/17 /log/tile/2/000.p/1" {
		t.Errorf("tlog-tiles: %s", got)
	}

	words := []string{"<0>", noteKey}
	for n := range byte(6) {
		words = append(words, "<"+string('1'+rune(n))+">", seeded(t, "w.test", n+1, 0).Verifier())
	}
	p, err := ParsePolicy([]byte(strings.NewReplacer(words...).Replace(policyExample)))
	if err != nil || len(p.Witnesses) != 6 || p.Logs()[0] != noteKey {
		t.Fatalf("tlog-policy: %v", err)
	}
	for _, c := range []struct {
		by string
		ok bool
	}{{"X1 X2 Y3", true}, {"X1 X3 Y1 Y2", true}, {"X1 Y1 Y2 Y3", false}, {"X1 X2 X3", false}, {"", false}} {
		signed := map[string]bool{}
		for _, name := range strings.Fields(c.by) {
			signed[name] = true
		}
		if p.quorum(signed) != c.ok {
			t.Errorf("tlog-policy: %q", c.by)
		}
	}
}
