/*
 * screen.h - the terminal as a full screen: one at a time.
 *
 * However the program ends, by its own will or by a signal, the terminal is
 * as it was: signals that end or stop it put it back first.
 */
#ifndef CTL_SCREEN_H
#define CTL_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* false: not a terminal, or one without escape sequences. */
bool screen_open(void);
void screen_close(void);

void screen_size(int *rows, int *columns);

/* Lines parted by line feeds, from the top; what is below is cleared. */
bool screen_draw(const char *text, int rows);

/*
 * Bytes typed; 0: time is up, or the screen must be drawn again (*redraw);
 * -1: there is no terminal any more.
 */
ssize_t screen_read(char *bytes, size_t max, int64_t ms, bool *redraw);

#endif
