//go:build !linux

package devchain

import "syscall"

// dieWithParent needs Linux; elsewhere a killed parent leaves its chain behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
