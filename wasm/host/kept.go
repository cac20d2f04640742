package host

import (
	"sync"

	"webring/core/abi"
)

// keptBefore is how many records from before the image are kept, for instances
// that lack them when there is a new one: more than a request may have one catch
// up with.
const keptBefore = 256

// keptBytes is how long the kept records may grow, in bytes, before a new image
// takes their place. They may grow as long as the last image, too, so that images
// cost no more than the records between them did, but not beyond mostKept: whoever
// builds an instance waits for all of them. In a ring of a million members that
// many bids, 700 000, take an instance 4 s, and an image takes 1 s and is 350 MB.
const (
	keptBytes = 8 << 20
	mostKept  = 32 << 20
)

// kept is what any instance can be built from: an image, and all records since,
// with a few before it for instances that lack them.
type kept struct {
	mu      sync.RWMutex
	image   *image
	from    uint64 // position of the first record
	records [][]byte
	bytes   int // from the image's position on
	least   int // bound on bytes, unless the image is longer; see keptBytes
}

// append adds encoded records, which follow the last ones.
func (k *kept) append(records [][]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records = append(k.records, records...)
	for _, r := range records {
		k.bytes += len(r)
	}
}

// full says that with these records it is time for a new image.
func (k *kept) full(records [][]byte) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	bytes := k.bytes
	for _, r := range records {
		bytes += len(r)
	}
	return bytes > max(k.least, min(k.image.memory.len(), mostKept))
}

// replace takes an image at a position that the records reach, and drops what it
// makes needless.
func (k *kept) replace(with *image) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := with.at
	if at < k.image.at {
		return // another was faster
	}
	k.image, k.bytes = with, 0
	if at-k.from > keptBefore {
		drop := at - keptBefore - k.from
		k.records = append([][]byte(nil), k.records[drop:]...)
		k.from += drop
	}
	for _, r := range k.records[at-k.from:] {
		k.bytes += len(r)
	}
}

// start gives the image.
func (k *kept) start() *image {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.image
}

// after gives the records from position seq up to end, at most as many as one
// call takes. It is not ok when they are no longer there. The list is the
// caller's to read: it never changes.
func (k *kept) after(seq, end uint64) (records [][]byte, ok bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if seq < k.from || seq > end {
		return nil, false
	}
	records = k.records[seq-k.from : end-k.from]
	return records[:min(len(records), abi.MaxRecords)], true
}
