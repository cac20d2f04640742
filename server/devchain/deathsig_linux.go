package devchain

import "syscall"

// DieWithParent has the kernel kill the child when the thread that started it
// ends, so that not even kill -9 leaves it behind. That thread must live as long
// as the child: lock it with [runtime.LockOSThread].
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
