package host

import "webring/core/abi"

// Record is one entry of the ledger; see [abi.Record].
type Record = abi.Record

// Response is what Serve writes; see [abi.Response].
type Response = abi.Response
