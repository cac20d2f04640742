// Package devchain runs a real Tempo chain and the reference MPP client on one
// machine, for development and tests; no part of the service imports it.
//
// [Install] brings the programs in with npm, once. [Start] runs the chain and
// tells its address and its funded accounts; [StartBase] does it for a chain in
// ordinary Ethereum mode, with a token that takes authorisations. Either can be kept
// in a file, from which the next one goes on. [StartClient] runs the reference client
// as a long-lived process that pays or only signs, many payments at once; [CLI] is the
// command a person would type instead. Everything listens on loopback, and everything
// dies with the process that started it.
//
// README.md says how the recorded test vectors of server/mpp, server/tempo
// and server/evm are made, and token/compile.mjs how the token's code is.
package devchain
