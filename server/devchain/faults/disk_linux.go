package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Disk is a file system that gives errors or hangs when a test wants it to. It passes all else on to a folder. It
// speaks to the kernel as FUSE does (linux/fuse.h), and needs root and the device /dev/fuse.
type Disk struct {
	Dir  string // where processes find it
	fuse int
	root int // keeps it mounted

	mu     sync.Mutex
	nodes  map[uint64]int // O_PATH descriptors of files, by their inodes; that of the root is 1
	unread string         // reads of files with such a name fail with EIO; "" for none
	hung   chan struct{}  // closed when syncs may go on, nil when they need not wait
}

// NewDisk makes a disk that keeps its files in a folder. It is mounted on another one for a moment: only an open file of
// this process keeps it, so it ends with the process, however that ends.
func NewDisk(dir, files string) (_ *Disk, err error) {
	d := &Disk{fuse: -1, root: -1, nodes: map[uint64]int{}}
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	if d.nodes[1], err = unix.Open(files, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if d.fuse, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err := unix.Mount("faults", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", d.fuse)); err != nil {
		return nil, err
	}
	d.root, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // asks nothing of the file system
	if err := errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)); err != nil {
		return nil, err
	}
	d.Dir = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), d.root)
	go d.serve()
	return d, nil
}

// release closes what the disk has open but its root.
func (d *Disk) release() {
	_ = unix.Close(d.fuse)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, fd := range d.nodes {
		_ = unix.Close(fd)
	}
}

// Close heals and ends the disk, when the last process that uses it has let go.
func (d *Disk) Close() error {
	d.Heal()
	return unix.Close(d.root)
}

// BreakReads has reads of files with such a name fail, also of what is mapped already.
func (d *Disk) BreakReads(name string) {
	d.mu.Lock()
	d.unread = name
	nodes := make([]uint64, 0, len(d.nodes))
	for node := range d.nodes {
		nodes = append(nodes, node)
	}
	d.mu.Unlock()
	for _, node := range nodes { // FUSE_NOTIFY_INVAL_INODE; a file that is not known any more is no error
		b := binary.LittleEndian.AppendUint32(nil, 40)
		b = binary.LittleEndian.AppendUint32(b, 2)
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint64(b, node)
		_, _ = unix.Write(d.fuse, append(b, make([]byte, 16)...))
	}
}

// Hang has syncs wait until the disk is healed.
func (d *Disk) Hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hung = make(chan struct{})
}

// Heal ends all faults.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unread = ""; d.hung != nil {
		close(d.hung)
		d.hung = nil
	}
}

// serve answers the kernel until nobody uses the file system any more.
func (d *Disk) serve() {
	defer d.release()
	buf := make([]byte, 1<<20+4096)
	for {
		n, err := unix.Read(d.fuse, buf)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT:
			continue
		case err != nil:
			return
		}
		req := request{append([]byte(nil), buf[:n]...)}
		if op := req.u32(4); op == 2 || op == 42 || op == 36 { // forgetting and interrupts have no answer
			continue
		}
		go func() {
			out, err := d.answer(req)
			code := uint32(0)
			if err != nil {
				errno, ok := err.(unix.Errno)
				if !ok {
					errno = unix.EIO
				}
				code, out = uint32(-int32(errno)), nil
			}
			head := binary.LittleEndian.AppendUint32(nil, uint32(16+len(out)))
			head = binary.LittleEndian.AppendUint32(head, code)
			head = binary.LittleEndian.AppendUint64(head, req.u64(8))
			_, _ = unix.Write(d.fuse, append(head, out...))
		}()
	}
}

// request is a message of the kernel: 40 bytes of header, and what belongs to the operation.
type request struct{ b []byte }

func (r request) u32(at int) uint32 { return binary.LittleEndian.Uint32(r.b[at:]) }
func (r request) u64(at int) uint64 { return binary.LittleEndian.Uint64(r.b[at:]) }
func (r request) names(at int) []string {
	return strings.Split(strings.TrimRight(string(r.b[at:]), "\x00"), "\x00")
}

func (d *Disk) node(id uint64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[id]
}

func (d *Disk) path(id uint64) string { return fmt.Sprintf("/proc/self/fd/%d", d.node(id)) }

func pack(fields ...any) (b []byte) {
	for _, v := range fields {
		switch v := v.(type) {
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, v)
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

func attributes(id uint64, s *unix.Stat_t) []byte {
	return pack(id, uint64(s.Size), uint64(s.Blocks), uint64(s.Atim.Sec), uint64(s.Mtim.Sec), uint64(s.Ctim.Sec), uint32(s.Atim.Nsec), uint32(s.Mtim.Nsec), uint32(s.Ctim.Nsec),
		s.Mode, uint32(s.Nlink), s.Uid, s.Gid, uint32(s.Rdev), uint32(4096), uint32(0))
}

// entry finds a name in a folder.
func (d *Disk) entry(parent uint64, name string) ([]byte, error) {
	fd, err := unix.Openat(d.node(parent), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.nodes[s.Ino]; known {
		unix.Close(fd)
	} else {
		d.nodes[s.Ino] = fd
	}
	return pack(s.Ino, uint64(0), uint64(0), uint64(0), uint32(0), uint32(0), attributes(s.Ino, &s)), nil
}

func (d *Disk) attributes(id uint64) ([]byte, error) {
	var s unix.Stat_t
	err := unix.Fstat(d.node(id), &s)
	return pack(uint64(0), uint64(0), attributes(id, &s)), err
}

// answer does what the kernel asks for.
func (d *Disk) answer(r request) ([]byte, error) {
	const body = 40
	id := r.u64(16)
	opened := func(fd int, err error) ([]byte, error) { return pack(uint64(fd), uint64(0)), err }
	made := func(err error, name string) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return d.entry(id, name)
	}
	flags := func(at int) int {
		return int(r.u32(at)) &^ (unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_APPEND | unix.O_DIRECT)
	}
	switch r.u32(4) {
	case 26: // INIT, with big writes
		return pack(uint32(7), uint32(31), r.u32(body+8), uint32(1<<5), uint32(0), uint32(1<<20), uint32(1), uint32(0), make([]byte, 32)), nil
	case 1: // LOOKUP
		return d.entry(id, r.names(body)[0])
	case 3: // GETATTR
		return d.attributes(id)
	case 4: // SETATTR
		valid, err := r.u32(body), error(nil)
		if valid&1 != 0 {
			err = unix.Chmod(d.path(id), r.u32(body+68)&0o7777)
		}
		if valid&6 != 0 {
			who := [2]int{-1, -1}
			for i := range who {
				if valid&(2<<i) != 0 {
					who[i] = int(r.u32(body + 76 + 4*i))
				}
			}
			err = unix.Chown(d.path(id), who[0], who[1])
		}
		if valid&8 != 0 && err == nil {
			err = unix.Truncate(d.path(id), int64(r.u64(body+16)))
		}
		if err != nil {
			return nil, err
		}
		return d.attributes(id)
	case 8: // MKNOD
		name := r.names(body + 16)[0]
		return made(unix.Mknodat(d.node(id), name, r.u32(body), 0), name)
	case 9: // MKDIR
		name := r.names(body + 8)[0]
		return made(unix.Mkdirat(d.node(id), name, r.u32(body)), name)
	case 10: // UNLINK
		return nil, unix.Unlinkat(d.node(id), r.names(body)[0], 0)
	case 11: // RMDIR
		return nil, unix.Unlinkat(d.node(id), r.names(body)[0], unix.AT_REMOVEDIR)
	case 12, 45: // RENAME, RENAME2
		at := body + 8
		if r.u32(4) == 45 {
			at += 8
		}
		names := r.names(at)
		return nil, unix.Renameat(d.node(id), names[0], d.node(r.u64(body)), names[1])
	case 13: // LINK
		name := r.names(body + 8)[0]
		return made(unix.Linkat(unix.AT_FDCWD, d.path(r.u64(body)), d.node(id), name, unix.AT_SYMLINK_FOLLOW), name)
	case 14: // OPEN
		return opened(unix.Open(d.path(id), flags(body)|unix.O_CLOEXEC, 0))
	case 35: // CREATE
		name := r.names(body + 16)[0]
		fd, err := unix.Openat(d.node(id), name, flags(body)|unix.O_CREAT|unix.O_CLOEXEC, r.u32(body+4))
		entry, err := made(err, name)
		return pack(entry, uint64(fd), uint64(0)), err
	case 15: // READ
		name, err := os.Readlink(d.path(id))
		d.mu.Lock()
		unread := d.unread
		d.mu.Unlock()
		if matches, _ := filepath.Match(unread, filepath.Base(name)); err != nil || matches {
			return nil, unix.EIO
		}
		b := make([]byte, r.u32(body+16))
		n, err := unix.Pread(int(r.u64(body)), b, int64(r.u64(body+8)))
		return b[:max(n, 0)], err
	case 16: // WRITE
		n, err := unix.Pwrite(int(r.u64(body)), r.b[body+40:][:r.u32(body+16)], int64(r.u64(body+8)))
		return pack(uint64(max(n, 0))), err
	case 17: // STATFS
		var s unix.Statfs_t
		err := unix.Fstatfs(d.node(1), &s)
		return pack(s.Blocks, s.Bfree, s.Bavail, s.Files, s.Ffree, uint32(s.Bsize), uint32(255), uint32(s.Frsize), make([]byte, 28)), err
	case 18: // RELEASE
		return nil, unix.Close(int(r.u64(body)))
	case 20: // FSYNC
		d.mu.Lock()
		wait := d.hung
		d.mu.Unlock()
		if wait != nil {
			<-wait
		}
		return nil, nil // the test does not cut the power
	case 28: // READDIR
		entries, err := os.ReadDir(d.path(id))
		var b []byte
		for i := int(r.u64(body + 8)); i < len(entries); i++ {
			name := entries[i].Name()
			entry := pack(uint64(i+2), uint64(i+1), uint32(len(name)), uint32(0), []byte(name))
			if entry = append(entry, make([]byte, -len(entry)&7)...); len(b)+len(entry) > int(r.u32(body+16)) {
				break
			}
			b = append(b, entry...)
		}
		return b, err
	case 43: // FALLOCATE
		return nil, unix.Fallocate(int(r.u64(body)), r.u32(body+24), int64(r.u64(body+8)), int64(r.u64(body+16)))
	case 25, 27, 29, 30: // FLUSH, OPENDIR, RELEASEDIR, FSYNCDIR
		if r.u32(4) == 27 {
			return pack(uint64(0), uint64(0)), nil
		}
		return nil, nil
	}
	return nil, unix.ENOSYS
}
