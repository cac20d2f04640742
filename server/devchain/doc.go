// Package devchain runs a real Tempo chain and the reference MPP client on one
// machine, for development and tests; no part of the service imports it.
//
// [Install] installs the programs with npm, once. [Start] runs a Tempo chain and gives
// its address and its funded accounts. [StartBase] runs a chain in ordinary Ethereum
// mode, with a token that takes authorisations. Either chain can be saved in a file,
// from which a later one continues. [StartClient] runs the reference client as a
// process that makes or only signs many payments at a time; [CLI] is the command that
// a person would type. Everything listens on loopback, and ends with the process that
// started it. [InstallIn] and [Program] serve tests of what npm has elsewhere, such as the
// engines of the Worker.
//
// README.md says how the recorded test vectors of server/pay/mpp, server/pay/tempo and
// server/pay/evm are made, and token/compile.mjs how the code of the token is made.
package devchain
