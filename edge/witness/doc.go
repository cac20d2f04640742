// Package witness is a witness of transparency logs (C2SP tlog-witness): it cosigns a checkpoint
// only if that continues every checkpoint that it has cosigned before.
//
// A log that shows one history to some readers and another one to others cannot get cosignatures
// for both. The witness keeps the whole checkpoint that it cosigned last. If the log signs another
// root for the same size, the two checkpoints together prove that, and the witness keeps both.
package witness
