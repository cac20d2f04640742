// Package etcdstore replicates a ledger through etcd, so that the loss of a machine costs
// nothing that was acknowledged.
//
// etcd holds a short log of transactions: the rows of each group that the ledger commits,
// as one sealed value. The store of every node stays its own, and is a prefix of that log.
// A node calls [Cluster.Stand]: it follows the log into its own store, and stands for
// election when nobody leads. Stand returns a [Term] to the node that was elected and has
// the whole log. The ledger then writes to [Term.Store], which sends each group to etcd
// before it commits it locally.
//
// # Keys
//
// All keys lie under /ring/{ring}/.
//
//	leader         name and URL of the node that leads; on its lease
//	head           position of the last transaction, its epoch, and what was written so far
//	tail/{serial}  rows of one transaction, sealed; the serial in 16 hex digits
//	trimmed        the last serial that is not in the tail any more
//	until          time up to which checkpoints were signed, ms
//	node/{node}    URL of a node, and the last transaction that it has durably
//	alive/{node}   which process of which data folder has the name; on a lease of the node
//	removed/{node} nothing; the node may not take part until it is added again
//	refused/{node} why the node does not take part; on a lease
//	shared         fingerprints of the secrets by which the leader works
//	handover       name of the node that shall lead, empty for any; an operator asks the leader
//	next           name of the node to which the last leader has handed over
//	sealing        id of the key that seals, and the transaction from which on it alone has
//	founded        after which transaction the log began, and a random id; nodes keep it in their marker
//	tombstone      epoch and name of the leader that has ended it, and is the single origin again
//
// # Safety
//
// A transaction is committed by one etcd transaction. It compares the create revision of
// the leader's key with that of the election (the epoch), and the revision of the head with
// that of the leader's last write, and then puts tail and head. A leader that was deposed
// while it slept fails that comparison, whatever its clock says. When the outcome is not
// known, the identical transaction is sent again: it changes the head that it compares, so
// it takes effect at most once. The lease serves liveness only.
//
// The clock by which a leader knows that its lease may have run out stands still while the whole
// machine is suspended, and the leader then learns of its end only with its next renewal, up to a
// quarter of the lease after it wakes. Nothing that it does in that time has an effect: commits are
// refused, among them that of the time up to which checkpoints may be signed, and that which
// precedes each payment for which the ring pays gas. Other payments are signed by
// their payers, and it is harmless to send one twice. A refusal could be wrong, since the
// ledger here lacks what the next leader has committed: [Term.Confirm] is asked before one is given.
//
// A node commits locally what etcd has committed and nothing else. So a deposed leader only
// has to follow again; nothing is ever rewound.
//
// Reads of etcd on which a decision rests are parts of transactions that write, because a
// paused member has been seen to answer linearised reads from its past.
//
// # Keys of the seal, and what a redaction leaves
//
// etcd never has the rows in clear: each group is sealed with a key that lies in a file of every
// node. A node whose file lacks the key with which the ring is sealed is refused. A new key is put
// above the old one in all files, in any order; the leader seals with it when all registered
// nodes have said that they have it. [Status.OldKey] says how long the old one is needed.
//
// A redaction deletes rows by a transaction, as any other. The transactions before it, which
// have the words, are deleted from the tail and compacted when all registered nodes have the
// redaction: within seconds while all run. A node that is off delays that until it is back or removed,
// or until the tail has a quarter of its bound; without any other node nothing is trimmed. Then
// etcd's files still have what was sealed, in pages of the database that are free and in log files
// and snapshots, until etcd has overwritten and removed them. That ends when the old key is
// deleted everywhere after a rotation: what it has sealed cannot be opened any more.
//
// # What etcd must be started with
//
// A group may reach [ledger.MaxBatch], which is more than etcd takes by default, and etcd
// keeps recent requests in memory:
//
//	--max-request-bytes 8388608 --snapshot-count 500
//
// The etcd cluster must serve nothing else: trimming compacts all of its history.
//
// # The files, in the order to read them
//
// config.go, keys.go and group.go (what is stored), seal.go (encryption of values),
// members.go (which member of etcd is asked), stand.go (following), elect.go, term.go (the
// lease), cell.go (the fenced write), store.go and overlay.go (the ledger's store), nodes.go
// (who takes part), instance.go (one process for each name), shared.go (secrets that all nodes share),
// trim.go, rotate.go (from one key to the next), init.go, status.go, marker.go.
package etcdstore
