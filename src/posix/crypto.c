/* Cryptography: OpenSSL's libcrypto. Nothing here is our own. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "core/base/os.h"

int clu_os_hmac_sha256(const void *key, size_t nkey, const void *msg, size_t n,
                       unsigned char out[32]) {
  unsigned len = 32;
  return HMAC(EVP_sha256(), key, (int)nkey, msg, n, out, &len) && len == 32 ? CLU_OK : CLU_SYS;
}

int clu_os_secret_bytes(void *out, size_t n) {
  return RAND_bytes(out, (int)n) == 1 ? CLU_OK : CLU_SYS;
}

int clu_os_same_secret(const void *a, const void *b, size_t n) {
  return CRYPTO_memcmp(a, b, n) == 0;
}

void clu_os_wipe(void *p, size_t n) { OPENSSL_cleanse(p, n); }
