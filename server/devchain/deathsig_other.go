//go:build !linux

package devchain

import "syscall"

// DieWithParent needs Linux; elsewhere a killed parent leaves its children behind.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
