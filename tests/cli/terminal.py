"""Runs a program in a terminal of its own and tells what was on the screen; knows just the escape sequences poem uses.

    terminal.py [--columns N] [--narrow N] [--interrupt TEXT] -- PROGRAM ARGUMENT...

Prints the screen at its end to stdout, the fullest progress view to stderr, and exits as the program did. The terminal
becomes N columns wide in the middle (--narrow); Ctrl-C is typed when TEXT is first on the screen (--interrupt).
"""

import argparse
import codecs
import fcntl
import os
import pty
import re
import struct
import sys
import termios


class Screen:
    """Rows of cells and a cursor. Lines longer than the terminal are broken, as terminals do, and broken anew when it
    becomes narrower; what scrolls off stays."""

    def __init__(self, columns):
        self.rows, self.row, self.column, self.columns = [[]], 0, 0, columns

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows).rstrip("\n")

    def resize(self, columns):
        rows = []
        for number, row in enumerate(self.rows):
            if number == self.row:
                cursor = len(rows) + self.column // columns
            rows += [row[i : i + columns] for i in range(0, max(len(row), 1), columns)]
        self.rows, self.row, self.column, self.columns = rows, cursor, self.column % columns, columns

    def down(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])

    def put(self, character):
        if self.column == self.columns:
            self.down()
            self.column = 0
        row = self.rows[self.row]
        row += " " * (self.column + 1 - len(row))
        row[self.column] = character
        self.column += 1

    def control(self, sequence):
        if sequence == "\r":
            self.column = 0
        elif sequence == "\n":
            self.down()
        elif sequence in ("\033[K", "\033[J"):
            del self.rows[self.row][self.column :]
            if sequence == "\033[J":
                del self.rows[self.row + 1 :]
        elif sequence == "\033[A":
            self.row -= 1
        elif not re.fullmatch(r"\033\[[0-9]+m", sequence):
            raise SystemExit(f"unknown control sequence {sequence!r}")

    def feed(self, text):
        """Returns what is left: a sequence that has not ended yet."""
        at = 0
        while at < len(text):
            if text[at] == "\033":
                found = re.compile(r"\033\[[0-9]*[A-Za-z]").match(text, at)
                if not found:
                    return text[at:]
                self.control(found.group())
                at = found.end()
            else:
                (self.control if text[at] < " " else self.put)(text[at])
                at += 1
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--narrow", type=int)
    parser.add_argument("--interrupt")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, options.columns, 0, 0))
        os.execv(options.command[0], options.command)
    screen, raw, rest, fullest = Screen(options.columns), "", "", ""
    decoder = codecs.getincrementaldecoder("utf-8")()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the program ended
            break
        if not data:
            break
        text = decoder.decode(data)
        raw += text
        rest = screen.feed(rest + text)
        view = "\n".join("".join(row).rstrip() for row in screen.rows[screen.row :])
        if len(view) >= len(fullest):
            fullest = view
        if options.narrow and "epoch   1/" in screen.text():
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, options.narrow, 0, 0))
            screen.resize(options.narrow)
            options.narrow, fullest = None, ""
        if options.interrupt and options.interrupt in screen.text():
            os.write(terminal, b"\x03")
            options.interrupt = None
    print(screen.text())
    print(fullest, file=sys.stderr)
    print("colours" if re.search(r"\033\[[0-9]+m", raw) else "no colours", file=sys.stderr)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
