// Package sharedmem lets several WebAssembly guests in one process begin with the
// same bytes without a copy for each.
//
// An [Image] holds the bytes, in a file in memory that is sealed: no process can
// change it. [Image.Place] maps it privately into the [Memory] of a guest, so the
// guests share each page until one of them writes to it, and then that one has a
// copy of the page.
//
// This is safe because of three things, each of which a test holds:
//
//   - The memory of a guest never moves: [Reserve] sets its whole address space aside,
//     so a mapping stays where the guest believes its bytes to be.
//   - The guest's collector does not move what the guest has allocated, and neither
//     reads nor writes what holds no pointers, so the bytes stay in place and shared.
//   - The file is sealed against writing, growing and shrinking, so no page can change
//     or vanish under a guest.
//
// A first write to a shared page is a fault, which takes one to three microseconds.
// What is written often is therefore copied by Place, in large pages where the
// kernel has them, so no request pays for a fault.
//
// All of it needs Linux. Elsewhere every function that can fail does so with
// [errors.ErrUnsupported], and callers copy.
package sharedmem
