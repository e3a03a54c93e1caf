# SPDX-License-Identifier: BSD-2-Clause
# Sourced by tests: certificates for TLS, written to the current directory as NAME.pem and NAME.key.
# They have the extensions of RFC 5280 that strict verifiers require, such as Python 3.13 and later, and
# each is verified so, because the clients of some systems do not.
# shellcheck shell=bash

authority() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout "$1.key" -out "$1.pem" \
        -subj "/CN=$1" -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null &&
        openssl verify -x509_strict -CAfile "$1.pem" "$1.pem" >/dev/null
}

# pair NAME AUTHORITY DAYS SUBJECT_ALT_NAME: a certificate that the authority has signed, and its key
pair() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -subj "/CN=$1" 2>/dev/null |
        openssl x509 -req -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days "$3" -out "$1.pem" -extfile <(
            printf '%s\n' "subjectAltName=$4" basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature \
                subjectKeyIdentifier=hash authorityKeyIdentifier=keyid
        ) 2>/dev/null &&
        openssl verify -x509_strict -no_check_time -CAfile "$2.pem" "$1.pem" >/dev/null
}
