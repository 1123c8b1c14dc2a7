/* Codes of errors and the sentences that go with them. */
#include "test.h"

#include "core/base/err.h"

TEST(a_failure_is_filled_in_and_its_code_returned) {
  clu_err e = {0, 0, ""};
  CHECK_INT_EQ(clu_fail(&e, CLU_REFUSED, 111, "no way to %s, port %d", "there", 7), CLU_REFUSED);
  CHECK_INT_EQ(e.code, CLU_REFUSED);
  CHECK_INT_EQ(e.sys, 111);
  CHECK_STR_EQ(e.text, "no way to there, port 7");
}

TEST(who_does_not_want_the_text_gets_the_code) {
  CHECK_INT_EQ(clu_fail(NULL, CLU_NOMEM, 0, "%s", "not enough memory"), CLU_NOMEM);
}

TEST(a_long_sentence_is_cut_within_its_field) {
  struct {
    clu_err e;
    char after[8];
  } x;
  char word[600];
  memset(word, 'w', sizeof word - 1);
  word[sizeof word - 1] = 0;
  memset(&x, 'x', sizeof x);
  clu_fail(&x.e, CLU_SYS, 0, "%s", word);
  CHECK_INT_EQ(strlen(x.e.text), sizeof x.e.text - 1);
  CHECK_MEM_EQ(x.e.text, word, sizeof x.e.text - 1);
  CHECK_MEM_EQ(x.after, "xxxxxxxx", sizeof x.after);
}

TEST(every_code_has_a_sentence_of_its_own) {
  CHECK_INT_EQ(CLU_OK, 0);
  for (int i = 0; i < CLU_N_CODES; i++) {
    CHECK(strlen(clu_code_text(i)) > 0);
    for (int k = 0; k < i; k++) CHECK(strcmp(clu_code_text(i), clu_code_text(k)) != 0);
  }
  CHECK_STR_EQ(clu_code_text(-1), "unknown error");
  CHECK_STR_EQ(clu_code_text(CLU_N_CODES), "unknown error");
}
