package flat

// Heap is a priority queue. Its members are numbers below 2^[HeapBits]; each has a time
// below 2^(64−HeapBits), and any can be moved or removed.
type Heap struct {
	Entries []uint64 // time << HeapBits | member; the first Len are in use
	Places  []uint32 // by member: place in Entries + 1, 0 for those not in it
	Len     int
}

const (
	// HeapBits is how many bits a member of a [Heap] has.
	HeapBits = 26

	// heapChildren is how many children an entry has: as many as fit a line of a
	// processor's cache, since each level down is a wait for memory.
	heapChildren = 8
	// HeapAhead is how many words to leave free before Entries, in memory that begins
	// with such a line: the children of an entry then share one.
	HeapAhead = heapChildren - 1
)

const heapMembers = 1<<HeapBits - 1

// First gives the member that is due first, and when. The heap must not be
// empty.
func (h *Heap) First() (member uint32, time int64) {
	return uint32(h.Entries[0] & heapMembers), int64(h.Entries[0] >> HeapBits)
}

// Push adds a member that is not in the heap.
func (h *Heap) Push(member uint32, time int64) {
	h.Len++
	h.up(h.Len-1, uint64(time)<<HeapBits|uint64(member))
}

// Move gives a member of the heap another time.
func (h *Heap) Move(member uint32, time int64) {
	h.put(int(h.Places[member]-1), uint64(time)<<HeapBits|uint64(member))
}

// Remove takes a member out, if it is in.
func (h *Heap) Remove(member uint32) {
	at := int(h.Places[member])
	if at == 0 {
		return
	}
	h.Places[member] = 0
	h.Len--
	if at--; at < h.Len {
		h.put(at, h.Entries[h.Len])
	}
}

// Due counts the members that are due, up to a limit. Pass 0 for at.
func (h *Heap) Due(time int64, at, limit int) (n int) {
	if at >= h.Len || int64(h.Entries[at]>>HeapBits) > time {
		return 0
	}
	n = 1
	for child := heapChildren*at + 1; child <= heapChildren*at+heapChildren && n < limit; child++ {
		n += h.Due(time, child, limit-n)
	}
	return n
}

// Order makes a heap of the first n entries, which stand in any order.
func (h *Heap) Order(n int) {
	h.Len = n
	for at, e := range h.Entries[:n] {
		h.Places[e&heapMembers] = uint32(at + 1)
	}
	for at := (n+heapChildren-2)/heapChildren - 1; at >= 0; at-- { // from the last that has children
		h.down(at, h.Entries[at])
	}
}

// put lets e, which replaces what was at a place, find its own.
func (h *Heap) put(at int, e uint64) {
	if at > 0 && e < h.Entries[(at-1)/heapChildren] {
		h.up(at, e)
	} else {
		h.down(at, e)
	}
}

func (h *Heap) up(at int, e uint64) {
	for at > 0 {
		parent := (at - 1) / heapChildren
		p := h.Entries[parent]
		if p <= e {
			break
		}
		h.Entries[at] = p
		h.Places[p&heapMembers] = uint32(at + 1)
		at = parent
	}
	h.Entries[at] = e
	h.Places[e&heapMembers] = uint32(at + 1)
}

func (h *Heap) down(at int, e uint64) {
	for {
		child := heapChildren*at + 1
		if child >= h.Len {
			break
		}
		group := h.Entries[child:min(child+heapChildren, h.Len)]
		least, l := 0, group[0]
		for i, x := range group {
			if x < l {
				least, l = i, x
			}
		}
		if e <= l {
			break
		}
		h.Entries[at] = l
		h.Places[l&heapMembers] = uint32(at + 1)
		at = child + least
	}
	h.Entries[at] = e
	h.Places[e&heapMembers] = uint32(at + 1)
}
