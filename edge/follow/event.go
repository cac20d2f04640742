package follow

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"

	"webring/core/snap"
	log "webring/edge/tlog"
)

// maxCarried is how many bytes of records may come with a checkpoint.
const maxCarried = 1 << 20

// event is one of a stream: a checkpoint, and what may have come with it.
type event struct {
	signed  []byte
	carried carried
}

// readEvent reads the data of the next event (WHATWG HTML, "Server-sent events"), as the
// lines of a text, and the ledger's events that it carries.
func readEvent(r *bufio.Reader) (event, error) {
	var data, from, events []byte
	for {
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return event{}, fmt.Errorf("follow: event stream: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		end := bytes.IndexByte(line, ':') + 1
		value := bytes.TrimPrefix(line[end:], []byte(" "))
		switch string(line[:end]) {
		case "data:":
			data = append(append(data, value...), '\n')
		case "from:":
			from = append(from[:0], value...)
		case "events:":
			if events, err = base64.StdEncoding.AppendDecode(events, value); err != nil {
				from = nil // the records will be fetched
			}
		}
		if len(line) == 0 && len(data) > 0 {
			return event{data, decodeCarried(from, events)}, nil
		}
		if len(data) > maxNote || len(events) > maxCarried {
			return event{}, errTooLong
		}
	}
}

// carried are records that came with a checkpoint, from event number from on. If they lead
// from the tree at hand to the signed root, nothing needs to be fetched.
type carried struct {
	from    uint64
	records []snap.Record
}

// decodeCarried returns no records if there are none, or if they are malformed.
func decodeCarried(from, events []byte) carried {
	at, err := strconv.ParseUint(string(from), 10, 63)
	if err != nil {
		return carried{}
	}
	records, err := snap.DecodeRecords(events)
	if err != nil {
		return carried{}
	}
	return carried{at, records}
}

// then returns both together if next begins where c ends. Otherwise it returns next, or c
// if next is empty.
func (c carried) then(next carried) carried {
	switch {
	case len(next.records) == 0:
		return c
	case len(c.records) == 0 || len(c.records) > snap.BlockEvents || c.from+uint64(len(c.records)) != next.from:
		return next
	}
	return carried{c.from, append(c.records, next.records...)}
}

// extend adds to the tree the records that it lacks, and returns them, if that leads to
// the checkpoint. Otherwise it returns nil and does not change the tree.
func (c carried) extend(tree *snap.Tree, to snap.Checkpoint) []snap.Record {
	at, end := tree.Size(), c.from+uint64(len(c.records))
	if at < c.from || at >= end || end != to.Size {
		return nil
	}
	records, ahead := c.records[at-c.from:], *tree
	if add(&ahead, records) != nil || ahead.Root() != to.Root {
		return nil
	}
	*tree = ahead
	if at > c.from {
		records = log.Clone(records)
	}
	return records
}
