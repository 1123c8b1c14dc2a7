/* Cryptography: Windows' own (CNG, bcrypt.dll), which is part of every system. Nothing here is
 * ours. */
#include "win/win.h"

#include <bcrypt.h>
#include <string.h>

#include "core/base/os.h"

int clu_os_hmac_sha256(const void *key, size_t nkey, const void *msg, size_t n,
                       unsigned char out[32]) {
  BCRYPT_ALG_HANDLE alg = NULL;
  BCRYPT_HASH_HANDLE hash = NULL;
  int ok = BCRYPT_SUCCESS(BCryptOpenAlgorithmProvider(&alg, BCRYPT_SHA256_ALGORITHM, NULL,
                                                      BCRYPT_ALG_HANDLE_HMAC_FLAG));
  ok = ok && BCRYPT_SUCCESS(BCryptCreateHash(alg, &hash, NULL, 0, (PUCHAR)key, (ULONG)nkey, 0));
  ok = ok && BCRYPT_SUCCESS(BCryptHashData(hash, (PUCHAR)msg, (ULONG)n, 0));
  ok = ok && BCRYPT_SUCCESS(BCryptFinishHash(hash, out, 32, 0));
  if (hash) BCryptDestroyHash(hash);
  if (alg) BCryptCloseAlgorithmProvider(alg, 0);
  return ok ? CLU_OK : CLU_SYS;
}

int clu_os_secret_bytes(void *out, size_t n) {
  return BCRYPT_SUCCESS(BCryptGenRandom(NULL, out, (ULONG)n, BCRYPT_USE_SYSTEM_PREFERRED_RNG))
             ? CLU_OK
             : CLU_SYS;
}

/* Looks at all bytes whatever the first ones are. */
int clu_os_same_secret(const void *a, const void *b, size_t n) {
  const volatile unsigned char *p = a, *q = b;
  unsigned char differ = 0;
  for (size_t i = 0; i < n; i++) differ |= (unsigned char)(p[i] ^ q[i]);
  return differ == 0;
}

void clu_os_wipe(void *p, size_t n) { SecureZeroMemory(p, n); }
