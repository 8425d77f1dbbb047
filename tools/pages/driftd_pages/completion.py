# SPDX-License-Identifier: MIT
"""A completion for bash from a program's option table."""
import re
from shlex import quote

TEMPLATE = """\
# Completion of {program} for bash, made from its option table.
{function}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in
      {commands}) command+=" $word" ;;
    esac
  done
  COMPREPLY=()
  case "$before" in
{choices}    {valued}) return ;;  # bash completes names of files
  esac
  local words=
  case "$command" in
{words}  esac
  if [[ $current == -* || $words != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}}
complete -o default -F {function} {program}
"""


def _tree(app: dict, path: str = ""):
    yield path, app
    for command in app["commands"]:
        yield from _tree(command, f"{path} {command['name']}")


def choices_of(option: dict) -> list[str]:
    """The choices in "TEXT:{a,b,c}"; names alone are worth completing."""
    match = re.search(r"\{([^{}]*)\}", option["value"])
    return [word.split("->")[0] for word in match[1].split(",")] if match else []


def bash(program: str, app: dict) -> str:
    tree = list(_tree(app))
    options = [option for _, command in tree for option in command["options"]
               if not option["positional"]]
    common = [name for option in app["options"] if not option["positional"] for name in option["names"]]
    choices, valued, words = "", {"--"}, ""
    for option in options:
        names = "|".join(option["names"])
        if found := choices_of(option):
            choices += (f"    {names}) mapfile -t COMPREPLY < <(compgen -W {quote(' '.join(found))} "
                        '-- "$current"); return ;;\n')
        elif option["value"]:
            valued.update(option["names"])
    for path, command in tree:
        own = [name for option in command["options"] if not option["positional"]
               for name in option["names"]]
        offered = [sub["name"] for sub in command["commands"]] + own
        offered += [name for name in common if name not in own]
        words += f"    {quote(path)}) words={quote(' '.join(offered))} ;;\n"
    return TEMPLATE.format(
        program=program, function="_" + program.replace("-", "_"),
        commands="|".join(quote(path) for path, _ in tree[1:]) or "''",
        choices=choices, valued="|".join(sorted(valued)), words=words)
