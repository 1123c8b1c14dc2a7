#include "r/base/turn.h"

clu_turns clu_turn;

int clu_turn_enter(const void *frame) { return clu_turns_enter(&clu_turn, frame); }
void clu_turn_leave(int mine) { clu_turns_leave(&clu_turn, mine); }
const void *clu_turn_pause(void) { return clu_turns_pause(&clu_turn); }
void clu_turn_resume(const void *frame) { clu_turns_resume(&clu_turn, frame); }
int64_t clu_turn_work_here(int64_t wait) { return clu_turns_work_here(&clu_turn, wait); }
void clu_turn_pass(void) { clu_turn_leave(clu_turn_enter(CLU_FRAME)); }
void clu_turn_end(void) { clu_turns_end(&clu_turn, 1); }
