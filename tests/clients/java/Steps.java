// SPDX-License-Identifier: BSD-2-Clause
// Reads steps and prints replies. clients_test.py describes both formats.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

final class Steps {
    private static final BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in));

    /** The commands of the next step, or null at the end. */
    static List<String[]> next() throws Exception {
        String line = input.readLine();
        if (line == null) {
            return null;
        }
        List<String[]> commands = new ArrayList<>();
        for (String command : line.split(Pattern.quote("\t|\t"))) {
            commands.add(command.split("\t"));
        }
        return commands;
    }

    static void show(Object reply) {
        if (reply instanceof List<?> list && list.stream().allMatch(one -> one instanceof Long)) {
            System.out.println(list.stream().map(String::valueOf).collect(Collectors.joining(" ")));
        } else {
            System.out.println((reply == null ? "" : reply.getClass().getSimpleName()) + ": " + reply);
        }
    }

    static void showError(Throwable error) {
        System.out.println("error: " + error.getMessage());
    }
}
