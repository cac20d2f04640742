package flat

// Tree is an ordered set of numbers that knows the place of each: a counted
// B+-tree. Asking and changing take logarithmic time.
//
// A node is [NodeWords] words. The first says how many entries it has and
// whether it is a leaf. The entries of a leaf are keys in order; those of
// another node are pairs: the least key that may stand below a child, and the
// child with the count of keys below it. Nodes are merged when both of two
// neighbours have become small, and one of them is given back.
type Tree struct {
	Nodes []uint64
	Used  int // nodes ever used
	Free  int // first of a chain of free nodes, + 1
	Root  int
	Depth int // levels; 0 when nothing was ever inserted
	Len   int // keys
}

const (
	// NodeWords is the size of a node in words of 8 bytes.
	NodeWords = 128

	leafKeys = NodeWords - 1
	children = (NodeWords - 1) / 2
	// packed is how full nodes are that [Tree.Build] makes: there is room for
	// what comes in between.
	packedKeys     = leafKeys * 7 / 8
	packedChildren = children * 7 / 8

	maxDepth = 12
)

// NodesFor is at least how many nodes a tree of count keys that [Tree.Build]
// makes has.
func NodesFor(count int) int {
	n := 1
	for below := (count + packedKeys - 1) / packedKeys; below > 1; below = (below + packedChildren - 1) / packedChildren {
		n += below
	}
	return n + 1
}

// Room says whether there are the nodes that one insertion may need.
func (t *Tree) Room() bool { return len(t.Nodes) >= (t.Used+t.Depth+2)*NodeWords }

// Sound says whether the numbers of a tree fit its memory. Of what lies there it
// says nothing.
func (t *Tree) Sound() bool {
	return t.Used >= 0 && t.Used <= len(t.Nodes)/NodeWords && t.Free <= t.Used && t.Depth <= maxDepth &&
		(t.Root < t.Used || t.Depth == 0 && t.Len == 0)
}

func (t *Tree) node(n int) []uint64 { return t.Nodes[n*NodeWords : n*NodeWords+NodeWords] }

// take gives a node that is not in use.
func (t *Tree) take() int {
	if t.Free == 0 {
		t.Used++
		return t.Used - 1
	}
	n := t.Free - 1
	t.Free = int(t.Nodes[n*NodeWords])
	return n
}

func (t *Tree) give(n int) {
	t.Nodes[n*NodeWords] = uint64(t.Free)
	t.Free = n + 1
}

const counted = 1<<32 - 1

// find gives the first of the n keys of a leaf that is not below key.
func find(node []uint64, key uint64) int {
	lo, hi := 1, int(node[0])+1
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if node[mid] < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// child gives the place in an inner node of the child below which key belongs.
func child(node []uint64, key uint64) int {
	lo, hi := 0, int(node[0])
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if node[1+2*mid] <= key {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// Insert adds a key that is not in the tree. There must be [Tree.Room].
func (t *Tree) Insert(key uint64) {
	if t.Depth == 0 {
		t.Root, t.Depth = t.take(), 1
		t.node(t.Root)[0] = 0
	}
	t.Len++
	right, least := t.insert(t.Root, t.Depth, key)
	if right < 0 {
		return
	}
	left := t.Root
	t.Root = t.take()
	t.Depth++
	root := t.node(t.Root)
	below := t.count(right, t.Depth-1)
	root[0] = 2
	root[1], root[2] = 0, uint64(left)<<32|uint64(t.Len-below)
	root[3], root[4] = least, uint64(right)<<32|uint64(below)
}

// count is how many keys stand below a node of this depth.
func (t *Tree) count(n, depth int) int {
	node := t.node(n)
	if depth == 1 {
		return int(node[0])
	}
	sum := 0
	for i := range int(node[0]) {
		sum += int(node[2+2*i] & counted)
	}
	return sum
}

// insert adds a key below a node. When that splits it, insert gives the new
// node to its right and the least key there, otherwise −1.
func (t *Tree) insert(n, depth int, key uint64) (right int, least uint64) {
	node := t.node(n)
	used := int(node[0])
	if depth == 1 {
		at := find(node, key)
		if used < leafKeys {
			copy(node[at+1:used+2], node[at:used+1])
			node[at] = key
			node[0]++
			return -1, 0
		}
		// A key that comes last leaves the node full, and one near the middle
		// ends the left half: so keys that rise, also in several runs, fill the
		// tree without gaps.
		keep := used / 2
		switch {
		case at > used:
			keep = used
		case at > used*3/8 && at < used*5/8:
			keep = at - 1
		}
		right = t.take()
		other := t.node(right)
		copy(other[1:], node[keep+1:used+1])
		other[0], node[0] = uint64(used-keep), uint64(keep)
		if at > keep+1 || keep == used {
			into := at - keep
			copy(other[into+1:], other[into:used-keep+1])
			other[into] = key
			other[0]++
		} else {
			copy(node[at+1:keep+2], node[at:keep+1])
			node[at] = key
			node[0]++
		}
		return right, other[1]
	}
	at := child(node, key)
	below, first := t.insert(int(node[2+2*at]>>32), depth-1, key)
	node[2+2*at]++
	if below < 0 {
		return -1, 0
	}
	moved := uint64(t.count(below, depth-1))
	node[2+2*at] -= moved
	at++
	pair := [2]uint64{first, uint64(below)<<32 | moved}
	if used < children {
		copy(node[3+2*at:3+2*used], node[1+2*at:1+2*used])
		node[1+2*at], node[2+2*at] = pair[0], pair[1]
		node[0]++
		return -1, 0
	}
	keep := used / 2
	if at == used {
		keep = used
	}
	right = t.take()
	other := t.node(right)
	copy(other[1:], node[1+2*keep:1+2*used])
	other[0], node[0] = uint64(used-keep), uint64(keep)
	into := node
	if at > keep || keep == used {
		into, at = other, at-keep
	}
	have := int(into[0])
	copy(into[3+2*at:3+2*have], into[1+2*at:1+2*have])
	into[1+2*at], into[2+2*at] = pair[0], pair[1]
	into[0]++
	return right, other[1]
}

// Delete takes out a key that is in the tree.
func (t *Tree) Delete(key uint64) {
	t.Len--
	t.delete(t.Root, t.Depth, key)
	for t.Depth > 1 && t.node(t.Root)[0] == 1 {
		old := t.Root
		t.Root = int(t.node(old)[2] >> 32)
		t.Depth--
		t.give(old)
	}
}

func (t *Tree) delete(n, depth int, key uint64) {
	node := t.node(n)
	if depth == 1 {
		at, used := find(node, key), int(node[0])
		copy(node[at:used], node[at+1:used+1])
		node[0]--
		return
	}
	at := child(node, key)
	below := int(node[2+2*at] >> 32)
	t.delete(below, depth-1, key)
	node[2+2*at]--
	limit := uint64(leafKeys)
	if depth > 2 {
		limit = children
	}
	if left := t.node(below)[0]; left*4 < limit && node[0] > 1 {
		// Merge with a neighbour, if the merged node has some room left.
		if at > 0 {
			at--
		}
		a, b := int(node[2+2*at]>>32), int(node[4+2*at]>>32)
		if t.node(a)[0]+t.node(b)[0] <= limit*3/4 {
			t.merge(node, at, a, b, depth-1)
		}
	}
}

// merge puts node b, to the right of a, into a; both are children of node.
func (t *Tree) merge(node []uint64, at, a, b, depth int) {
	left, right := t.node(a), t.node(b)
	words := 1
	if depth > 1 {
		words = 2
	}
	copy(left[1+int(left[0])*words:], right[1:1+int(right[0])*words])
	left[0] += right[0]
	node[2+2*at] += node[4+2*at] & counted
	used := int(node[0])
	copy(node[3+2*at:], node[5+2*at:1+2*used])
	node[0]--
	t.give(b)
}

// Rank is how many keys in the tree are below key.
func (t *Tree) Rank(key uint64) (below int) {
	if t.Depth == 0 {
		return 0
	}
	n := t.Root
	for depth := t.Depth; depth > 1; depth-- {
		node := t.node(n)
		at := child(node, key)
		for i := range at {
			below += int(node[2+2*i] & counted)
		}
		n = int(node[2+2*at] >> 32)
	}
	return below + find(t.node(n), key) - 1
}

// At gives the key at place i, from 0 on; there must be one.
func (t *Tree) At(i int) uint64 {
	var key [1]uint64
	return t.Append(key[:0], i, 1)[0]
}

// Append appends up to count keys from place i on to dst.
func (t *Tree) Append(dst []uint64, i, count int) []uint64 {
	count = min(count, t.Len-i)
	for count > 0 {
		had := len(dst)
		n := t.Root
		place := i
		for depth := t.Depth; depth > 1; depth-- {
			node := t.node(n)
			at := 2
			for c := int(node[at] & counted); place >= c; c = int(node[at] & counted) {
				place -= c
				at += 2
			}
			n = int(node[at] >> 32)
		}
		node := t.node(n)
		dst = append(dst, node[1+place:1+min(int(node[0]), place+count)]...)
		i += len(dst) - had
		count -= len(dst) - had
	}
	return dst
}

// Build makes the tree anew of keys in order. There must be room for
// [NodesFor] them, elsewhere than where they lie.
func (t *Tree) Build(keys []uint64) {
	b := t.Rebuild()
	for _, key := range keys {
		b.Add(key)
	}
	b.End()
}

// Builder makes a tree anew of keys that it is given in order. The tree may be
// used after [Builder.End].
type Builder struct {
	t *Tree
	// Levels are begun and filled together, from the left: of each, the node
	// that is being filled.
	open [maxDepth]int
	leaf []uint64 // the keys of the last one
}

// Rebuild begins to make the tree anew. There must be room for its keys: see
// [NodesFor].
func (t *Tree) Rebuild() *Builder {
	*t = Tree{Nodes: t.Nodes}
	return &Builder{t: t, leaf: make([]uint64, 0, packedKeys)}
}

// Add adds the next key.
func (b *Builder) Add(key uint64) {
	if b.leaf = append(b.leaf, key); len(b.leaf) == packedKeys {
		b.flush()
	}
}

// End makes the tree what it was given.
func (b *Builder) End() {
	if len(b.leaf) > 0 {
		b.flush()
	}
	if b.t.Depth > 0 {
		b.t.Root = b.open[b.t.Depth-1]
	}
}

func (b *Builder) flush() {
	t, n := b.t, b.t.take()
	node := t.node(n)
	node[0] = uint64(copy(node[1:], b.leaf))
	t.Len += len(b.leaf)
	if t.Depth == 0 {
		t.Depth, b.open[0] = 1, n
	} else {
		t.hang(&b.open, 1, n, b.leaf[0], len(b.leaf))
	}
	b.leaf = b.leaf[:0]
}

// hang puts node n, with count keys below it, under the open node of level, or
// a new one next to it.
func (t *Tree) hang(open *[maxDepth]int, level, n int, least uint64, count int) {
	if level == t.Depth {
		// The node next to it was the root so far.
		first := open[level-1]
		open[level] = t.take()
		parent := t.node(open[level])
		parent[0] = 1
		parent[1], parent[2] = 0, uint64(first)<<32|uint64(t.count(first, level))
		t.Depth++
	}
	open[level-1] = n
	parent := t.node(open[level])
	if parent[0] < packedChildren {
		i := 2 * parent[0]
		parent[1+i], parent[2+i] = least, uint64(n)<<32|uint64(count)
		parent[0]++
		if level+1 < t.Depth {
			t.raise(open, level+1, uint64(count))
		}
		return
	}
	next := t.take()
	parent = t.node(next)
	parent[0] = 1
	parent[1], parent[2] = least, uint64(n)<<32|uint64(count)
	t.hang(open, level+1, next, least, count)
}

// raise adds to the counts of the open node at level, and of those above, for
// their last children.
func (t *Tree) raise(open *[maxDepth]int, level int, count uint64) {
	for ; level < t.Depth; level++ {
		parent := t.node(open[level])
		parent[2*parent[0]] += count
	}
}
