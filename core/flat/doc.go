// Package flat is memory as the core uses it where speed counts: bytes at
// offsets. It is the only package of the core that imports unsafe, so that
// what the compiler does not check lies in few lines.
//
//   - pen.go: [Pen], which writes a document piece by piece into room that was
//     made before
//
// Nothing here knows what the bytes mean.
package flat
