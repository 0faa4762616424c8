"""Runs the commands of a Markdown page and compares what they print with what the page shows.

    console.py PAGE

In the page's ```console blocks a line that starts with "$ " is a command, and the lines up to the next command are its
output. Commands run in the current folder, one after the other. Outputs may differ in their numbers, durations and
spaces; lines that are equal apart from these may occur any number of times in a row. A line "…" stands for any lines.
"""
import fnmatch
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


def shape(lines):
    kept = []
    for line in lines:
        line = re.sub(r'[-+−]?\d[\d.,]*(e-?\d+)?', '#', line)
        line = re.sub(r'(# h )?(# min )?# s\b', '# s', line)
        line = re.sub(r'\s+', ' ', line).strip()
        if line and (not kept or kept[-1] != line):
            kept.append(line)
    return '\n'.join(kept)


def main(path):
    found = steps(open(path, encoding='utf-8').read())
    if not found:
        sys.exit(f'{path} shows no command')
    for command, shown in found:
        done = subprocess.run(['bash', '-c', command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        printed = shape(done.stdout.decode().splitlines())
        pattern = re.sub(r'[*?[]', '?', shape(shown)).replace('\n…', '*').replace('…\n', '*')
        if done.returncode != 0 or not fnmatch.fnmatchcase(printed, pattern):
            sys.exit(f'{command}\nexit code {done.returncode}; printed, numbers as #:\n{printed}\n'
                     f'the page shows:\n{shape(shown)}')


main(sys.argv[1])
