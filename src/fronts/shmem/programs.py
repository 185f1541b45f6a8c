"""Programs that call every function with a type in its name, with every type, and look at what became of it.

A function is tried in three steps, so that thousands need few barriers: each PE prepares a slot of symmetric memory that
is the function's own, all call the function with the slot of their right neighbour, all check their own slot."""

import re

import functions
import headers
import table


def kind_of(operation):
    """What the operation's name says that it does. Not what the table says that it calls: that may be wrong."""
    return (operation.name or operation.blocks).replace("{}_", "").replace("{}", "").removesuffix("_nbi")


def loop(count, body):
    return f"for (int i = 0; i < {count}; ++i) {{ {body} }}"


FILL = "mine[i] = VALUE(me, i);"
PREPARED = "there[i] = VALUE(me, i);"
QUIET = "shmem_quiet(); shmem_ctx_quiet(ctx);"

# Of each call: what is done before, the call and what is seen at once, and what is seen afterwards. T, VALUE, EQUAL, ZERO,
# PUT and CALL() stand for the type and the function.
MEMORY = {
    "put": ("", f"static T mine[4]; {loop(4, FILL)} CALL(there, mine, 4, right);",
            loop(4, "CHECK(EQUAL(there[i], VALUE(left, i)));")),
    "p": ("", "CALL(there, VALUE(me, 0), right);", "CHECK(EQUAL(there[0], VALUE(left, 0)));"),
    "iput": ("", f"T mine[3]; {loop(3, FILL)} CALL(there, mine, 2, 1, 3, right);",
                    loop(3, "CHECK(EQUAL(there[2 * i], VALUE(left, i)));") + " CHECK(EQUAL(there[1], ZERO()));"),
    "ibput": ("", f"T mine[4]; {loop(4, FILL)} CALL(there, mine, 3, 2, 2, 2, right);",
                   loop(2, "CHECK(EQUAL(there[i], VALUE(left, i))); CHECK(EQUAL(there[3 + i], VALUE(left, 2 + i)));")
                   + " CHECK(EQUAL(there[2], ZERO()));"),
    "get": (loop(4, PREPARED), f"static T mine[4]; CALL(mine, there, 4, right); {QUIET} "
            + loop(4, "CHECK(EQUAL(mine[i], VALUE(right, i)));"), ""),
    "g": (loop(1, PREPARED), "CHECK(EQUAL(CALL(there, right), VALUE(right, 0)));", ""),
    "iget": (loop(5, PREPARED), "T mine[3]; CALL(mine, there, 1, 2, 3, right); "
                    + loop(3, "CHECK(EQUAL(mine[i], VALUE(right, 2 * i)));"), ""),
    "ibget": (loop(5, PREPARED), "T mine[4]; CALL(mine, there, 2, 3, 2, 2, right); "
                   + loop(2, "CHECK(EQUAL(mine[i], VALUE(right, i))); CHECK(EQUAL(mine[2 + i], VALUE(right, 3 + i)));"),
                   ""),
}


def put_signal(function):
    operation, value = ("SHMEM_SIGNAL_ADD", 7) if function.operation.name.endswith("nbi") else ("SHMEM_SIGNAL_SET", 5)
    return ("*signal_of(slot) = 2;",
            f"static T mine[4]; {loop(4, FILL)} CALL(there, mine, 4, signal_of(slot), 5, {operation}, right);",
            loop(4, "CHECK(EQUAL(there[i], VALUE(left, i)));") + f" CHECK(*signal_of(slot) == {value});")


BEFORE, OPERAND = "VALUE({}, 1)", "VALUE({}, 2)"
# Arguments after the address, and what is there afterwards: of the PE that called it, whose word it changed.
ATOMIC = {
    ("fetch",): ("", "{before}"),
    ("set",): ("{operand}", "{operand}"),
    ("compare_swap", "cswap"): ("{seen}, {operand}", "{operand}"),
    ("swap",): ("{operand}", "{operand}"),
    ("fetch_inc", "inc", "finc"): ("", "(T)({before} + 1)"),
    ("fetch_add", "add", "fadd"): ("{operand}", "(T)({before} + {operand})"),
    ("fetch_and", "and"): ("{operand}", "(T)({before} & {operand})"),
    ("fetch_or", "or"): ("{operand}", "(T)({before} | {operand})"),
    ("fetch_xor", "xor"): ("{operand}", "(T)({before} ^ {operand})"),
}


def atomic(function):
    name = kind_of(function.operation).removeprefix("atomic_")
    arguments, after = next(each for names, each in ATOMIC.items() if name in names)
    arguments = arguments.format(operand=OPERAND.format("me"), seen=BEFORE.format("right"))
    arguments = ", ".join(part for part in ("there", arguments, "right") if part)
    seen = BEFORE.format("right")
    if function.operation.name.endswith("_nbi"):
        act = f"static T seen; CALL(&seen, {arguments}); {QUIET} CHECK(EQUAL(seen, {seen}));"
    elif function.result == "void":
        act = f"CALL({arguments});"
    else:
        act = f"CHECK(EQUAL(CALL({arguments}), {seen}));"
    after = after.format(before=BEFORE.format("me"), operand=OPERAND.format("left"))
    return "there[0] = VALUE(me, 1);", act, f"CHECK(EQUAL(there[0], {after}));"


def waiting(function):
    way = kind_of(function.operation)
    if way == "wait":
        return "", "PUT(there, VALUE(me, 0), right); CALL(there, ZERO()); CHECK(EQUAL(there[0], VALUE(left, 0)));", ""
    is_test = way.startswith("test")
    if way in ("wait_until", "test"):
        call = "CALL(there, SHMEM_CMP_EQ, VALUE(left, 0))"
        wait = f"while (!{call}) yield();" if is_test else f"{call};"
        return "", f"PUT(there, VALUE(me, 0), right); {wait} CHECK(EQUAL(there[0], VALUE(left, 0)));", ""
    # The second of three words does not count, and stays 0.
    second = "2" if way.endswith("_vector") else "0"
    act = f"static const int status[3] = {{0, 1, 0}}; PUT(there, VALUE(me, 0), right); " \
          f"PUT(there + 2, VALUE(me, {second}), right); "
    compared = "VALUE(left, 0)"
    if way.endswith("_vector"):
        act += f"T values[3]; {loop(3, 'values[i] = VALUE(left, i);')} "
        compared = "values"
    if "_all" in way:
        call = f"CALL(there, 3, status, SHMEM_CMP_EQ, {compared})"
        act += (f"while (!{call}) yield();" if is_test else f"{call};")
        act += f" CHECK(EQUAL(there[0], VALUE(left, 0))); CHECK(EQUAL(there[2], VALUE(left, {second})));"
    elif "_any" in way:
        call = f"CALL(there, 3, status, SHMEM_CMP_EQ, {compared})"
        act += f"size_t found = {call}; "
        if is_test:
            act += f"while (found == SIZE_MAX) {{ yield(); found = {call}; }} "
        act += "CHECK(found == 0 || found == 2);"
    else:
        call = f"CALL(there, 3, indices, status, SHMEM_CMP_EQ, {compared})"
        act += f"size_t indices[3]; size_t found = {call}; "
        if is_test:
            act += f"while (found == 0) {{ yield(); found = {call}; }} "
        act += "CHECK(found == 1 || found == 2); CHECK(indices[0] == 0 || indices[0] == 2);"
    return "", act, ""


TO_SEND = "source[i] = VALUE(me, i);"
# Arguments after the arrays, and what is seen then. Those of active sets have the same.
COLLECTIVE = {
    "broadcast": (loop(4, TO_SEND), "4, pes - 1",
                  loop(4, "CHECK(EQUAL(dest[i], ROOT_STAYS ? ZERO() : VALUE(pes - 1, i)));")),
    "collect": (loop(2, TO_SEND), "(size_t)(1 + me % 2)",
                "int at = 0; for (int pe = 0; pe < pes; ++pe) { for (int i = 0; i < 1 + pe % 2; ++i, ++at) "
                "{ CHECK(EQUAL(dest[at], VALUE(pe, i))); } }"),
    "fcollect": (loop(2, TO_SEND), "2", loop("2 * pes", "CHECK(EQUAL(dest[i], VALUE(i / 2, i % 2)));")),
    "alltoall": (loop("2 * pes", TO_SEND), "2",
                 loop("2 * pes", "CHECK(EQUAL(dest[i], VALUE(i / 2, 2 * me + i % 2)));")),
    "alltoalls": (loop("2 * pes", "source[2 * i] = VALUE(me, i);"), "1, 2, 2",
                  loop("2 * pes", "CHECK(EQUAL(dest[i], VALUE(i / 2, 2 * me + i % 2)));")),
}
ALL_PES = "0, 0, pes"


def collective(function):
    way = kind_of(function.operation)
    prepare, arguments, seen = COLLECTIVE[way]
    if function.operation in table.OLD_COLLECTIVES:
        stays = "me == pes - 1" if way == "broadcast" else "0"
        act = f"CALL(dest, source, {arguments}, {ALL_PES}, sync_words_of(slot)); "
    else:
        stays = "0"
        act = f"CHECK(CALL(SHMEM_TEAM_WORLD, dest, source, {arguments}) == 0); "
    return prepare, act + seen.replace("ROOT_STAYS", f"({stays})"), ""


COMBINED = {
    "and": "(T)(seen & next)", "or": "(T)(seen | next)", "xor": "(T)(seen ^ next)", "sum": "(T)(seen + next)",
    "prod": "(T)(seen * next)", "max": "seen < next ? next : seen", "min": "next < seen ? next : seen",
}


def reduction(function):
    operator = function.operation.name.removeprefix("{}_").split("_")[0]
    value = "SMALL" if operator == "prod" else "VALUE"
    act = f"CALL(dest, source, 3, {ALL_PES}, (T *)(slot + WORK_AT), sync_words_of(slot)); " \
        if function.operation in table.OLD_REDUCES else "CHECK(CALL(SHMEM_TEAM_WORLD, dest, source, 3) == 0); "
    seen = loop(3, f"T seen = {value}(0, i); for (int pe = 1; pe < pes; ++pe) {{ T next = {value}(pe, i); "
                   f"seen = {COMBINED[operator]}; }} CHECK(EQUAL(dest[i], seen));")
    return loop(3, f"source[i] = {value}(me, i);"), act + seen, ""


def scan(function):
    last = "pe <= me" if function.operation.name.endswith("inscan") else "pe < me"
    seen = loop(3, f"T seen = ZERO(); for (int pe = 0; {last}; ++pe) {{ seen = (T)(seen + VALUE(pe, i)); }} "
                   "CHECK(EQUAL(dest[i], seen));")
    return loop(3, TO_SEND), f"CHECK(CALL(SHMEM_TEAM_WORLD, dest, source, 3) == 0); {seen}", ""


def steps(function):
    """What is done before, the call, and what is checked afterwards."""
    operation = function.operation
    if kind_of(operation) in MEMORY:
        return MEMORY[kind_of(operation)]
    if operation in table.PUT_SIGNAL:
        return put_signal(function)
    if operation in table.ATOMICS + table.ATOMICS_NOT_WAITING + table.OLD_ATOMICS:
        return atomic(function)
    if operation in table.WAITS + table.OLD_WAITS:
        return waiting(function)
    if operation in table.SCANS:
        return scan(function)
    if operation in table.REDUCES + table.OLD_REDUCES:
        return reduction(function)
    return collective(function)


def filled_in(text, function, name, put):
    """A step's text with the function's names."""
    kind = "void" if function.element.startswith("block") else table.TYPES[function.element]
    kind = function.element if kind == "void" else kind
    called = f"{name}(ctx, " if function.context else f"{name}("
    for mark, word in (("CALL(", called), ("VALUE(", f"value_{function.element}("), ("SMALL(", f"small_{function.element}("),
                       ("EQUAL(", f"equal_{function.element}("), ("ZERO(", f"zero_{function.element}("), ("PUT(", put + "(")):
        text = text.replace(mark, word)
    return re.sub(r"\bT\b", kind, text)


def trial(number, function, name, put):
    """The three functions of a trial."""
    kind = function.element if function.element.startswith("block") else table.TYPES[function.element]
    lines = []
    for step, text in zip(("prepare", "act", "check"), steps(function)):
        text = filled_in(text, function, name, put)
        pointers = [(word, f"{kind} *{word} = ({kind} *){place};") for word, place in
                    (("there", "slot"), ("source", "slot"), ("dest", "(slot + DEST_AT)"))]
        start = " ".join(text_of for word, text_of in pointers if f"{word}" in text)
        lines.append(f"static void {step}_{number}(char *slot) {{ (void)slot; {start} {text} }}")
    return "\n".join(lines)


def program(title, chosen):
    """chosen: (function, name by which it is called, name of the put of one element)."""
    trials = "\n".join(trial(number, *each) for number, each in enumerate(chosen))
    entries = ",\n".join(f'  {{"{function.name}", prepare_{number}, act_{number}, check_{number}}}'
                         for number, (function, _, _) in enumerate(chosen))
    return f"""\
/* {title}
 *
 * {headers.GENERATED} */
#include "every.h"

{trials}

static const struct trial trials[] = {{
{entries}
}};

int main(void) {{
  return try_all(trials, sizeof trials / sizeof trials[0]);
}}
"""


def typed():
    return [(function, function.name, f"shmem_{function.element}_p") for section in table.SECTIONS
            for operation in section.operations for context in (False, True) if operation.context or not context
            for function in functions.forms(operation, context)]


def by_type():
    """Calls by the names without a type."""
    return [(function, "shmem_" + function.operation.generic, "shmem_p") for function, _, _ in typed()
            if function.operation.generic and not function.element.startswith("block")]


def files():
    yield "every_function.c", program("Calls every function that has a type, a number of bits or mem in its name.", typed())
    yield "every_selection.c", program("Calls every selection by type of C11 with every type.", by_type())
    yield "every_overload.cc", program("Calls every overload of C++ with every type.", by_type())
