// SPDX-License-Identifier: BSD-2-Clause
// Runs steps with Jedis and its default options.
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;

final class JedisClient {
    private static ProtocolCommand name(String[] command) {
        return () -> command[0].getBytes();
    }

    private static String[] arguments(String[] command) {
        return Arrays.copyOfRange(command, 1, command.length);
    }

    public static void main(String[] args) throws Exception {
        try (RedisClient client = RedisClient.create("127.0.0.1", Integer.parseInt(args[0]))) {
            for (List<String[]> commands; (commands = Steps.next()) != null;) {
                if (commands.size() == 1) {
                    String[] command = commands.get(0);
                    try {
                        Steps.show(client.sendCommand(name(command), arguments(command)));
                    } catch (JedisDataException error) {
                        Steps.showError(error);
                    }
                    continue;
                }
                List<Response<Object>> replies = new ArrayList<>();
                try (var pipe = client.pipelined()) {
                    for (String[] command : commands) {
                        replies.add(pipe.sendCommand(name(command), arguments(command)));
                    }
                }
                for (Response<Object> reply : replies) {
                    try {
                        Steps.show(reply.get());
                    } catch (JedisDataException error) {
                        Steps.showError(error);
                    }
                }
            }
        }
    }
}
