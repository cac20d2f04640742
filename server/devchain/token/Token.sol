// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// A stand-in for USDC on development chains and in tests: as much of ERC-20 as
/// a test looks at, and transfers by authorisation (EIP-3009). As with USDC, an
/// account without code signs with secp256k1, and one with code, be it a contract
/// or an account that has delegated to one (EIP-7702), is asked itself whether a
/// signature is its own (ERC-1271). The token works under any address where its code
/// is put, and money is made by writing into slot 0, the balances.
contract Token {
    string public constant name = "USD Coin";
    string public constant version = "2";
    string public constant symbol = "USDC";
    uint8 public constant decimals = 6;

    bytes32 private constant TRANSFER = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 private constant CANCEL = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        transferWithAuthorization(from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) public {
        require(block.timestamp > validAfter, "authorization is not yet valid");
        require(block.timestamp < validBefore, "authorization is expired");
        consume(from, nonce, keccak256(abi.encode(TRANSFER, from, to, value, validAfter, validBefore, nonce)), signature);
        emit AuthorizationUsed(from, nonce);
        move(from, to, value);
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        consume(authorizer, nonce, keccak256(abi.encode(CANCEL, authorizer, nonce)), abi.encodePacked(r, s, v));
        emit AuthorizationCanceled(authorizer, nonce);
    }

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                block.chainid,
                address(this)
            )
        );
    }

    function consume(address signer, bytes32 nonce, bytes32 message, bytes memory signature) private {
        require(!authorizationState[signer][nonce], "authorization is used or canceled");
        require(signed(signer, keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), message)), signature), "invalid signature");
        authorizationState[signer][nonce] = true;
    }

    function signed(address signer, bytes32 digest, bytes memory signature) private view returns (bool) {
        if (signer.code.length > 0) {
            (bool ok, bytes memory answer) = signer.staticcall(
                abi.encodeWithSignature("isValidSignature(bytes32,bytes)", digest, signature)
            );
            return ok && answer.length >= 32 && abi.decode(answer, (bytes32)) == bytes32(bytes4(0x1626ba7e));
        }
        if (signature.length != 65) return false;
        bytes32 r;
        bytes32 s;
        assembly {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
        }
        uint8 v = uint8(signature[64]);
        address recovered = ecrecover(digest, v, r, s);
        return uint256(s) <= HALF_ORDER && (v == 27 || v == 28) && recovered != address(0) && recovered == signer;
    }

    function move(address from, address to, uint256 value) private {
        require(balanceOf[from] >= value, "transfer amount exceeds balance");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}
