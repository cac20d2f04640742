package core

// wide says that the platform multiplies 64 bits to 128.
const wide = false
