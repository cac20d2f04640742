// Package cluster has several origins keep one ledger through etcd, so that the loss of a machine
// costs nothing that was acknowledged.
//
// etcd holds a short log of transactions: the rows of each group that the ledger commits, as one
// sealed value. Each node has a store of its own, which is a prefix of that log. A [Participant]
// drives a node: it follows the log, stands for election when no node leads, and leads while it is
// elected. A [Term] is the time for which a node leads. The ledger then writes to [Term.Store], which
// sends each group to etcd before it commits it locally.
//
// # Keys
//
// All keys are under /ring/{ring}/.
//
//	leader         name and URL of the leader; on its lease
//	head           position of the last transaction, its epoch, and what was written so far
//	tail/{serial}  rows of one transaction, sealed; the serial in 16 hex digits
//	trimmed        the last serial that is no longer in the tail
//	until          time up to which checkpoints were signed, ms
//	node/{node}    URL of a node, the last transaction that it has durably, and why it can take no payments
//	alive/{node}   which process of which data folder has the name; on a lease of the node
//	removed/{node} nothing; the node may not take part until it is added again
//	refused/{node} why the node does not take part; on a lease
//	shared         fingerprints of the leader's secrets
//	handover       node that an operator wants to lead, empty for any
//	next           node to which the last leader handed over
//	sealing        id of the key that seals, and since which transaction
//	founded        after which transaction the log began, and a random id, which nodes have in their marker
//	tombstone      epoch and name of the leader that took the ring out of etcd
//
// # Safety
//
// One etcd transaction commits one ledger transaction. It compares the create revision of the
// leader's key with that of the election (the epoch), and the revision of the head with that of the
// leader's last write; then it puts tail and head. A leader that was deposed while it slept fails that
// comparison, whatever its clock says. If the outcome is unknown, the identical transaction is sent
// again: it changes the head that it compares, so it takes effect at most once. The lease serves
// liveness only.
//
// The clock by which a leader knows that its lease may have run out stops while the whole machine is
// suspended. The leader then learns of its end with its next renewal, up to a quarter of the lease
// after it wakes. Nothing that it does in that time has an effect: its commits are refused, including
// the one that allows signing and the one before each payment for which the ring pays gas. Other
// payments are signed by their payers, and sending one twice is harmless. A refusal could be wrong,
// since the ledger here lacks what the next leader has committed, so [Term.Confirm] comes first.
//
// A node commits locally only what etcd has committed. So a deposed leader only has to follow again;
// nothing is ever rewound.
//
// Decisions rest on reads in transactions that also write, because a paused member has been seen to
// answer linearised reads from its past.
//
// # Who leads
//
// A node finds out all the time whether it can take payments ([RoleHandler.Fit]), and says so in its
// report. One that cannot lets others be elected first, for two leases. A leader that cannot for ten
// seconds hands over to a node that says that it can, and then stands back for two minutes like one that cannot: so
// nodes that fail only while they lead do not pass the lead around. While none can take payments, one leads
// all the same, because edges need what it signs.
//
// The election of go.etcd.io/etcd/client/v3/concurrency was rejected. It does not read the head in the
// electing transaction, and its session does not tell when a renewal was sent, from which the deadline
// must count.
//
// # Keys of the seal, and what a redaction leaves
//
// etcd never has the rows in clear: each group is sealed with a key from a file that every node has. A
// node whose file lacks the ring's key is refused. A new key goes above the old one in all files, in
// any order; the leader seals with it when all registered nodes have reported it. [Status.OldKey] says
// how long the old one is needed.
//
// A redaction deletes rows by a transaction. The earlier transactions, which have the words, leave the
// tail and are compacted when all registered nodes have the redaction: within seconds while all run. A
// node that is off delays that until it is back or removed, or until the tail has a quarter of its
// bound. Without any other node nothing is trimmed. After that, etcd's files still have the sealed
// values, in free pages, log files and snapshots, until etcd has overwritten and removed them. That
// ends when the old key is deleted everywhere after a rotation: nothing can open the values any more.
//
// # What etcd must be started with
//
// A group may reach [ledger.MaxBatch], which is more than etcd takes by default, and etcd keeps recent
// requests in memory:
//
//	--max-request-bytes 8388608 --snapshot-count 500
//
// The etcd cluster must serve nothing else: trimming compacts its whole history.
//
// # The files, in the order to read them
//
// config.go, keys.go (what is stored), seal.go (encryption, and how its key changes), members.go
// (which member of etcd is asked), participant.go (roles), follow.go, elect.go, term.go (the lease,
// and fenced writes), store.go (the ledger's store), nodes.go (which processes take part), shared.go
// (secrets of all nodes), trim.go, init.go, status.go, marker.go.
package cluster
