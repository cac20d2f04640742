//go:build !linux

package sharedmem

import "errors"

// Image is for Linux alone, and so are the other types.
type Image struct{}

func New([]byte) (*Image, error) { return nil, errors.ErrUnsupported }

func (*Image) Len() int                                { return 0 }
func (*Image) AppendTo(dst []byte) []byte              { return dst }
func (*Image) View(f func([]byte) error) error         { return f(nil) }
func (*Image) Place([]byte, *Memory, int) (int, error) { return 0, errors.ErrUnsupported }

type Draft struct{}

func NewDraft(int) (*Draft, error) { return nil, errors.ErrUnsupported }

func (*Draft) Bytes() []byte         { return nil }
func (*Draft) Seal() (*Image, error) { return nil, errors.ErrUnsupported }
func (*Draft) Discard()              {}

type Memory struct{}

func Reserve(_, _ uint64) (*Memory, error) { return nil, errors.ErrUnsupported }

func (*Memory) Reallocate(uint64) []byte { return nil }
func (*Memory) Free()                    {}
func (*Memory) Unmap()                   {}
