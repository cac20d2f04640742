package devchain

import "syscall"

// dieWithParent has the kernel kill the child when the thread that started it
// ends, so that not even kill -9 leaves a chain behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
