"""Runs the commands of a Markdown page and compares what they print with what the page shows.

    console.py PAGE WORD...

In the page's ```console blocks a line that starts with "$ " is a command, and the lines up to the next command are its
output. Commands run in the current folder, one after the other. Numbers, durations and spaces may differ, and one WORD
may stand for another. Lines that are equal apart from these count as one line that may repeat. A line "…" stands for
any lines.
"""
import re
import subprocess
import sys


def steps(page):
    found = []
    for block in re.findall(r'^```console\n(.*?)^```$', page, re.M | re.S):
        for line in block.splitlines():
            if line.startswith('$ '):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def shape(line, words):
    line = re.sub(rf'\b({"|".join(words)})\b', '@', line)
    line = re.sub(r'[-+−]?\d[\d.,]*(e-?\d+)?', '#', line)
    line = re.sub(r'(# h )?(# min )?# s\b', '# s', line)
    return re.sub(r'\s+', ' ', line).strip()


def pattern(shapes):
    text, last = '', None
    for line in shapes:
        if line == '…':
            text += r'(?:.*\n)*'
        elif line != last:
            text += rf'(?:{re.escape(line)}\n)+'
        last = line
    return text


def main(path, *words):
    found = steps(open(path, encoding='utf-8').read())
    if not found:
        sys.exit(f'{path} shows no command')
    for command, shown in found:
        done = subprocess.run(['bash', '-c', command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        printed = done.stdout.decode()
        expected = pattern([shape(line, words) for line in shown])
        shapes = ''.join(shape(line, words) + '\n' for line in printed.splitlines())
        if done.returncode != 0 or not re.fullmatch(expected, shapes):
            sys.exit(f'{command}\nexit code {done.returncode}; it printed:\n{printed}'
                     'the page shows:\n' + '\n'.join(shown))


main(*sys.argv[1:])
