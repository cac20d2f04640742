// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// A smart account for development chains and tests: its code says which signatures are
/// its own (ERC-1271). A signature is 65 bytes (r, s, v) for each of the owners that must
/// sign, in ascending order of their addresses. The account works under any address where
/// its code is put: slot 0 holds how many owners must sign, and slot 1 a mapping of the
/// owners. Where slot 0 is 0, the key of the account's own address signs, as for an account
/// that has delegated to this code (EIP-7702).
contract Account {
    uint256 public threshold;
    mapping(address => bool) public owns;

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        uint256 signers = threshold == 0 ? 1 : threshold;
        if (signature.length != signers * 65) return 0xffffffff;
        address last = address(0);
        for (uint256 i = 0; i < signers; i++) {
            bytes calldata part = signature[i * 65:(i + 1) * 65];
            address signer = ecrecover(digest, uint8(part[64]), bytes32(part[0:32]), bytes32(part[32:64]));
            bool known = threshold == 0 ? signer == address(this) : owns[signer];
            if (signer <= last || !known) return 0xffffffff;
            last = signer;
        }
        return 0x1626ba7e;
    }
}
